/** One replacement in a text: what stands from `start` to `end` (exclusive) gives way to `text`. */
export interface Edit {
  start: number;
  end: number;
  text: string;
}

/** Applies edits that do not overlap, in any order; everything else stays as it is, byte for byte. */
export function splice(text: string, edits: readonly Edit[]): string {
  const ordered = edits.length > 1 ? [...edits].sort((a, b) => a.start - b.start) : edits;
  let result = '';
  let at = 0;
  for (const edit of ordered) {
    result += text.slice(at, edit.start) + edit.text;
    at = edit.end;
  }
  return result + text.slice(at);
}
