import { cutBytes } from '../cut-bytes.ts';

/** What most texts are, and then there is nothing to be done to them. */
const PLAIN = /^(?:[!"$-~][ -~]*)?$/;
/** What Unicode calls a line break (5.8, "Newline Guidelines"), and the tab. */
const BREAKS = /[\t\n\v\f\r\u0085\u2028\u2029]+/g;
const BREAKS_FIRST = /^[\t\n\v\f\r\u0085\u2028\u2029]+/;
const BREAK_LAST = /[\t\n\v\f\r\u0085\u2028\u2029]$/;
/** Other controls (C0, DEL, C1), and those of the direction of writing: Unicode's `Bidi_Control`. */
const DROPPED =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is taken out
  /[\u0000-\u0008\u000e-\u001f\u007f-\u0084\u0086-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g;
const BEGINNING = /^[\s#]+/;

/**
 * A text of somebody else as it may stand in a prompt (decisions 4.9): on one line, without control characters and those
 * that turn the text around, and not like a heading; at most `mostBytes` bytes of UTF-8, cut between two characters.
 *
 * Line breaks that follow each other, with tabs, are one space. Of the blanks and `#` that a text begins with, the blanks
 * stay. Surrogates without their other half become U+FFFD.
 *
 * Beside what is dropped, hardly more of a text is read than stays of it.
 */
export function sanitised(text: string, mostBytes: number): string {
  const head = text.slice(0, mostBytes);
  if (PLAIN.test(head)) return head;
  let made = '';
  let afterBreak = false;
  let atBeginning = true;
  for (let from = 0; from < text.length && made.length < mostBytes; from += mostBytes) {
    let piece = text.slice(from, from + mostBytes).replace(DROPPED, '');
    if (afterBreak) piece = piece.replace(BREAKS_FIRST, '');
    if (piece === '') continue;
    afterBreak = BREAK_LAST.test(piece);
    made += piece.replace(BREAKS, ' ');
    if (!atBeginning) continue;
    made = made.replace(BEGINNING, (beginning) => beginning.replaceAll('#', ''));
    atBeginning = made.trim() === '';
  }
  return cutBytes(made, mostBytes);
}
