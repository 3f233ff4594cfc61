import { INVISIBLE } from '@sluice/protocol/text';

interface InertTextProps {
  readonly text: string;
  /** Characters to show, the rest as an ellipsis; default 2000. */
  readonly maxLength?: number;
}

// C0 controls too, except for tabs and line breaks.
const SHOWN = new RegExp(`(${INVISIBLE.source}|[\\u0000-\\u0008\\u000b-\\u001f])`);

/** A word that tables break, so that it does not widen its column. */
const LONG_WORD = /\S{25}/;

/**
 * Text of an upstream, model or user. Control, bidirectional and zero-width characters are visible as their code points, so
 * that a name cannot look like another one.
 */
export function InertText({ text, maxLength = 2000 }: InertTextProps) {
  const shown = text.length > maxLength ? `${text.slice(0, maxLength).toWellFormed()}…` : text;
  const parts = shown.split(SHOWN);
  return (
    <bdi
      className={LONG_WORD.test(shown) ? 'inert has-long-word' : 'inert'}
      title={text.length > maxLength ? `${text.length} characters` : undefined}
    >
      {parts.length === 1
        ? shown
        : parts.map((part, index) =>
            // `split` with a group alternates between text and matches.
            index % 2 === 0 ? (
              part
            ) : (
              // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other identity
              <span key={index} className="invisible-character">
                {codePoint(part)}
              </span>
            ),
          )}
    </bdi>
  );
}

/** Returns text for where only a string is possible; invisible characters are their code points, and the end is cut off. */
export function visibleText(text: string, maxLength = 300): string {
  const shown = text.length > maxLength ? `${text.slice(0, maxLength).toWellFormed()}…` : text;
  return shown
    .split(SHOWN)
    .map((part, index) => (index % 2 === 0 ? part : `[${codePoint(part)}]`))
    .join('');
}

function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}
