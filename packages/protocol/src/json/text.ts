import type { ChunkBuffer } from '../chunk-buffer.ts';

/**
 * Finds values in JSON text and edits the text, without serializing them again: numbers, escapes and unknown members keep their
 * exact text.
 *
 * All functions expect valid JSON.
 */

/** Code units of JSON's punctuation. */

export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
export const COMMA = 0x2c;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;
export const OPEN_BRACKET = 0x5b;
export const CLOSE_BRACKET = 0x5d;
export const COLON = 0x3a;

/** A member of an object: its decoded key and the range of its value (`end` is exclusive). */
export interface Member {
  key: string;
  start: number;
  end: number;
}

/** Yields the members of the object at or after `start`, including duplicates; nothing for other values. */
export function* members(text: string, start = 0): Generator<Member> {
  for (let at = keyAfter(OPEN_BRACE, text, start); at !== -1; ) {
    const member = memberAt(text, at);
    yield member;
    at = keyAfter(COMMA, text, member.end);
  }
}

/** The first member of the object at `start` with this key. */
export function findMember(text: string, key: string, start = 0): Member | undefined {
  for (let at = keyAfter(OPEN_BRACE, text, start); at !== -1; ) {
    const member = memberAt(text, at);
    if (member.key === key) return member;
    at = keyAfter(COMMA, text, member.end);
  }
  return undefined;
}

/** The position of the key that follows this punctuation, which is at or after `at`; -1 if there is none. */
function keyAfter(punctuation: number, text: string, at: number): number {
  const found = skipSpace(text, at);
  if (text.charCodeAt(found) !== punctuation) return -1;
  const key = skipSpace(text, found + 1);
  return text.charCodeAt(key) === QUOTE ? key : -1;
}

/** The member whose key begins at `at`. */
function memberAt(text: string, at: number): Member {
  const keyEnd = skipString(text, at);
  const key = stringAt(text, at, keyEnd);
  const start = skipSpace(text, skipSpace(text, keyEnd) + 1);
  return { key, start, end: skipValue(text, start) };
}

/** Yields the ranges of the elements of the array at or after `start`; nothing for other values. */
export function* elements(text: string, start = 0): Generator<{ start: number; end: number }> {
  let at = skipSpace(text, start);
  if (text.charCodeAt(at) !== OPEN_BRACKET) return;
  at = skipSpace(text, at + 1);
  while (at < text.length && text.charCodeAt(at) !== CLOSE_BRACKET) {
    const end = skipValue(text, at);
    yield { start: at, end };
    at = skipSpace(text, end);
    if (text.charCodeAt(at) !== COMMA) return;
    at = skipSpace(text, at + 1);
  }
}

/** The exact text of a member of the object at `start`; of duplicates the last one, as for `JSON.parse`. */
export function memberText(text: string, key: string, start = 0): string | undefined {
  let found: Member | undefined;
  for (const member of members(text, start)) if (member.key === key) found = member;
  return found && text.slice(found.start, found.end);
}

/** The texts of all members of an object by their keys; of duplicates the last one. */
export function memberTexts(text: string): Map<string, string> {
  const texts = new Map<string, string>();
  for (const { key, start, end } of members(text)) texts.set(key, text.slice(start, end));
  return texts;
}

/** The members at a path of keys that begins at `start`: several where a key is repeated. Without keys, what is there. */
export function findMembers(text: string, path: readonly string[], start = 0): Member[] {
  let found: Member[] = [{ key: '', start, end: text.length }];
  for (const name of path) {
    found = found.flatMap(({ start }) => [...members(text, start)].filter(({ key }) => key === name));
  }
  return found;
}

/** The value of a JSON string. */
export function stringValue(json: string): string {
  return json.includes('\\') ? String(JSON.parse(json)) : json.slice(1, -1);
}

/** The value of the JSON string between two positions. */
export function stringAt(text: string, start: number, end: number): string {
  const raw = text.slice(start + 1, end - 1);
  return raw.includes('\\') ? stringValue(`"${raw}"`) : raw;
}

/** The beginning of the value of a JSON string, of which only the first bytes are known, without a truncated character. */
export function stringStart(bytes: Buffer): string {
  let end = bytes.length;
  // A character of several bytes.
  let lead = end - 1;
  while (lead > end - 4 && ((bytes[lead] ?? 0) & 0xc0) === 0x80) lead--;
  const byte = bytes[lead] ?? 0;
  if (byte >= 0xc0 && end - lead < (byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4)) end = lead;
  // An escape, which begins after an even number of backslashes.
  const last = bytes.lastIndexOf(BACKSLASH, end - 1);
  if (last > 0 && last > end - 6) {
    let first = last;
    while (bytes[first - 1] === BACKSLASH) first--;
    const length = bytes[last + 1] === 0x75 ? 6 : 2;
    if ((last - first) % 2 === 0 && last + length > end) end = last;
  }
  return stringValue(`${bytes.toString('utf8', 0, end)}"`);
}

/** The position after white space. */
export function skipSpace(text: string, at: number): number {
  let code = text.charCodeAt(at);
  while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) code = text.charCodeAt(++at);
  return at;
}

/** Characters after an escape that are read one by one: a search for each quote costs more where escapes are dense. */
const NEAR = 4;

/** The position after the string whose opening quote is at `at`. */
export function skipString(text: string, at: number): number {
  let from = at + 1;
  for (;;) {
    const quote = text.indexOf('"', from);
    if (quote === -1) return text.length;
    let back = quote - 1;
    while (text.charCodeAt(back) === BACKSLASH) back--;
    from = quote + 1;
    // An even number of backslashes does not escape the quote.
    if ((quote - back) % 2 === 1) return from;
    let near = from + NEAR;
    while (from < near) {
      const code = text.charCodeAt(from);
      if (code === QUOTE) return from + 1;
      if (code === BACKSLASH) near = from + 2 + NEAR;
      from += code === BACKSLASH ? 2 : 1;
    }
  }
}

/** The position after the value at `at`. */
function skipValue(text: string, at: number): number {
  const first = text.charCodeAt(at);
  if (first === QUOTE) return skipString(text, at);
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return skipContainer(text, at).end;
  return skipScalar(text, at);
}

/** The position after the number, boolean or null at `at`. */
export function skipScalar(text: string, at: number): number {
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || code <= 0x20) return at;
    at++;
  }
  return at;
}

/** The position after the array or object at `at`, and its nesting: 1 if it contains no other one. */
export function skipContainer(text: string, at: number): { readonly end: number; readonly depth: number } {
  let open = 0;
  let depth = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = skipString(text, at);
      continue;
    }
    at++;
    if (code === OPEN_BRACE || code === OPEN_BRACKET) depth = Math.max(depth, ++open);
    else if ((code === CLOSE_BRACE || code === CLOSE_BRACKET) && --open === 0) break;
  }
  return { end: at, depth };
}

/** Replaces the range from `start` to `end` (exclusive) by `text`. */
export interface Edit {
  start: number;
  end: number;
  text: string;
}

/** Applies edits that do not overlap, in any order; the rest is unchanged. */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  let result = '';
  let at = 0;
  for (const edit of sortEdits(edits)) {
    result += text.slice(at, edit.start) + edit.text;
    at = edit.end;
  }
  return result + text.slice(at);
}

/** Like {@link applyEdits}, for the bytes of a text in ASCII, which are not copied. */
export function editBytes(bytes: ChunkBuffer, edits: readonly Edit[]): Buffer[] {
  const result: Buffer[] = [];
  let at = 0;
  for (const edit of sortEdits(edits)) {
    result.push(...bytes.slice(at, edit.start), Buffer.from(edit.text));
    at = edit.end;
  }
  return [...result, ...bytes.slice(at, bytes.length)];
}

function sortEdits(edits: readonly Edit[]): readonly Edit[] {
  return edits.length > 1 ? [...edits].sort((a, b) => a.start - b.start) : edits;
}

/** Replaces the values at a path of keys by a JSON text. */
export function replaceAt(text: string, path: readonly string[], replacement: string): string {
  const edits = findMembers(text, path).map(({ start, end }) => ({ start, end, text: replacement }));
  return applyEdits(text, edits);
}

/** Removes members from the objects at a path of keys. */
export function removeAt(text: string, path: readonly string[], drop: (key: string) => boolean): string {
  const edits = findMembers(text, path).flatMap(({ start }) => removeEdits(text, start, drop));
  return applyEdits(text, edits);
}

/** Inserts members, as JSON text, at the beginning of an object. */
export function withMembers(object: string, inserted: string): string {
  return applyEdits(object, [insertEdit(object, 0, inserted)]);
}

/** Returns the edit that inserts members, as JSON text, at the beginning of the object at `start`. */
export function insertEdit(text: string, start: number, inserted: string): Edit {
  const [first] = members(text, start);
  return { start: start + 1, end: start + 1, text: first ? `${inserted},` : inserted };
}

/**
 * Returns the edits that remove members, with their commas, from the object at or after `start`. No edit touches the value
 * of another member.
 */
export function removeEdits(text: string, start: number, drop: (key: string) => boolean): Edit[] {
  const edits: Edit[] = [];
  let before = skipSpace(text, start) + 1;
  let first = true;
  for (const { key, end } of members(text, start)) {
    if (!drop(key)) first = false;
    else if (first) {
      const comma = skipSpace(text, end);
      const after = text.charCodeAt(comma) === COMMA ? comma + 1 : end;
      edits.push({ start: before, end: after, text: '' });
      before = after;
      continue;
    } else edits.push({ start: before, end, text: '' });
    before = end;
  }
  return edits;
}
