/**
 * The first characters of a text that have no more than `bytes` bytes of UTF-8 together. Surrogates without their other
 * half become U+FFFD; no character is cut in two.
 */
export function cutBytes(text: string, bytes: number): string {
  // A pair of surrogates that is cut in two here has no room anyway.
  const head = text.slice(0, bytes).toWellFormed();
  if (Buffer.byteLength(head) <= bytes) return head;
  const encoded = Buffer.from(head);
  let end = bytes;
  while (((encoded[end] ?? 0) & 0xc0) === 0x80) end--;
  return encoded.toString('utf8', 0, end);
}
