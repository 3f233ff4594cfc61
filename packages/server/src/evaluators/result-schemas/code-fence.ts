const OPENING = /^(`{3,}|~{3,})[^\n]*\n/;

/** A text without the one Markdown code fence that may surround all of it; another text as it is (decisions 4.9). */
export function withoutFence(text: string): string {
  const trimmed = text.trim();
  const [opening, marks] = OPENING.exec(trimmed) ?? [];
  if (opening === undefined || marks === undefined) return text;
  const end = trimmed.length - marks.length;
  // The closing marks stand on a line of their own, which may be the one after the opening.
  const isClosed = end >= opening.length && trimmed.endsWith(`\n${marks}`);
  return isClosed ? trimmed.slice(opening.length, end) : text;
}
