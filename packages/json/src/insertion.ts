import { members } from './scan.ts';
import type { Edit } from './splice.ts';

/** The edit that puts members, as JSON text, at the beginning of the object that begins at `start`. */
export function insertion(text: string, start: number, inserted: string): Edit {
  const [first] = members(text, start);
  return { start: start + 1, end: start + 1, text: first ? `${inserted},` : inserted };
}
