import type { RawNumber } from '@sluice/protocol/json/parse';
import { Document, Scalar, type ScalarTag, visit } from 'yaml';
import { sanitizeJson } from '../terminal/text.ts';

/** Numbers that a double cannot represent. Output only: `test` never matches. */
const rawNumber: ScalarTag = {
  identify: (value) => JSON.isRawJSON(value),
  default: true,
  tag: 'tag:yaml.org,2002:float',
  test: /(?!)/,
  resolve: (text) => text,
  stringify: ({ value }) => rawText(value),
};

/** Characters that must be escaped, and a string that would be read as a merge key. */
const NOT_PLAIN =
  /^<<$|[^\n\x20-\x7e\u00a0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd\u{10000}-\u{10ffff}]/u;
/** Whitespace that a block scalar may lose: at its start, at its end, and on blank lines. */
const UNSAFE_IN_BLOCK = /^\n* | $|\n +(?:\n|$)/;

/**
 * Formats a JSON value as YAML with the original notation of numbers and without characters that manipulate a terminal.
 */
export function toYaml(value: unknown): string {
  const document = new Document(value, { customTags: (tags) => [rawNumber, ...tags], aliasDuplicateObjects: false });
  visit(document, {
    Scalar: (_key, node) => {
      if (typeof node.value !== 'string') return;
      const { value: text } = node;
      const plain = !NOT_PLAIN.test(text) && !UNSAFE_IN_BLOCK.test(text) && sanitizeJson(text) === text;
      if (!plain) node.type = Scalar.QUOTE_DOUBLE;
    },
  });
  const text = document.toString({ lineWidth: 0, doubleQuotedMinMultiLineLength: Number.MAX_SAFE_INTEGER });
  // Such characters are in double-quoted scalars now, where YAML has the escapes of JSON.
  return sanitizeJson(text);
}

function rawText(value: unknown): string {
  const isRaw = (candidate: unknown): candidate is RawNumber => JSON.isRawJSON(candidate);
  return isRaw(value) ? value.rawJSON : String(value);
}
