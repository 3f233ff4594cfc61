/** What most texts are, and then there is nothing to be done to them; a blank first may have a `#` behind it. */
const PLAIN = /^(?:[!"$-~][ -~]*)?$/;
const NUMBER_SIGN = 0x23;
const REPLACEMENT = 0xfffd;

/**
 * A text of somebody else as it may stand in a prompt (decisions 4.9): on one line, without characters that are not seen
 * or that turn the text around, and not like a heading; at most `mostBytes` bytes of UTF-8, cut between two characters.
 *
 * Line breaks are all that Unicode calls so (5.8, "Newline Guidelines"); those that follow each other, with tabs, are one
 * space. Of the blanks and `#` that a text begins with, the blanks stay. Surrogates without their other half become
 * U+FFFD.
 *
 * Beside what is dropped, no more of a text is read than stays of it.
 */
export function sanitised(text: string, mostBytes: number): string {
  const head = text.slice(0, mostBytes);
  if (PLAIN.test(head)) return head;
  let made = '';
  let bytes = 0;
  let atBeginning = true;
  let afterBreak = false;
  for (let at = 0; at < text.length; at++) {
    let code = text.codePointAt(at) ?? REPLACEMENT;
    if (code > 0xffff) at++;
    if (isBreak(code)) {
      if (afterBreak) continue;
      afterBreak = true;
      code = 0x20;
    } else if (isDropped(code)) {
      continue;
    } else {
      afterBreak = false;
      if (isSurrogate(code)) code = REPLACEMENT;
    }
    if (atBeginning && code === NUMBER_SIGN) continue;
    bytes += bytesOf(code);
    if (bytes > mostBytes) return made;
    const character = String.fromCodePoint(code);
    atBeginning &&= character.trim() === '';
    made += character;
  }
  return made;
}

function isBreak(code: number): boolean {
  return (code >= 0x09 && code <= 0x0d) || code === 0x85 || code === 0x2028 || code === 0x2029;
}

/** Controls (C0, DEL, C1), and those of the direction of writing: Unicode's `Bidi_Control`. */
function isDropped(code: number): boolean {
  if (code < 0x20 || (code >= 0x7f && code <= 0x9f) || code === 0x61c || code === 0x200e || code === 0x200f)
    return true;
  return (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

function isSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdfff;
}

function bytesOf(code: number): number {
  if (code < 0x80) return 1;
  if (code < 0x800) return 2;
  return code < 0x10000 ? 3 : 4;
}
