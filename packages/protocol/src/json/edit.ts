import { COMMA, members, skipSpace } from './scan.ts';

/** One replacement in a text: what stands from `start` to `end` (exclusive) gives way to `text`. */
export interface Edit {
  start: number;
  end: number;
  text: string;
}

/** Applies edits that do not overlap, in any order; everything else stays as it is, byte for byte. */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  const ordered = edits.length > 1 ? [...edits].sort((a, b) => a.start - b.start) : edits;
  let result = '';
  let at = 0;
  for (const edit of ordered) {
    result += text.slice(at, edit.start) + edit.text;
    at = edit.end;
  }
  return result + text.slice(at);
}

/** The edit that puts members, as JSON text, at the beginning of the object that begins at `start`. */
export function insertEdit(text: string, start: number, inserted: string): Edit {
  const [first] = members(text, start);
  return { start: start + 1, end: start + 1, text: first ? `${inserted},` : inserted };
}

/**
 * The edits that take members out of the object that begins at or after `start`, with their commas; all else keeps its
 * text and place. No edit touches the value of a member that stays.
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
