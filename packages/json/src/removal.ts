import { COMMA } from './characters.ts';
import { members, skipSpace } from './scan.ts';
import type { Edit } from './splice.ts';

/**
 * The edits that take members out of the object that begins at or after `start`, with their commas; all else keeps its
 * text and place. No edit touches the value of a member that stays.
 */
export function removals(text: string, start: number, drop: (key: string) => boolean): Edit[] {
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
