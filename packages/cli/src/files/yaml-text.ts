import type { JsonValue, RawNumber } from '@sluice/protocol/json/parse';
import { Document, Scalar, type ScalarTag, visit } from 'yaml';
import { sanitizeJson } from '../terminal/text.ts';

/** Numbers that a double does not spell as they came. Never read with this: `test` fits nothing. */
const rawNumber: ScalarTag = {
  identify: (value) => JSON.isRawJSON(value),
  default: true,
  tag: 'tag:yaml.org,2002:float',
  test: /(?!)/,
  resolve: (text) => text,
  stringify: ({ value }) => rawText(value),
};

/** Characters that no file should have as they are, and a text that would be taken for a merge key. */
const NOT_PLAIN =
  /^<<$|[^\n\x20-\x7e\u00a0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd\u{10000}-\u{10ffff}]/u;
/** Blanks that a block of lines may lose: before its first character and after its last, and on a line of their own. */
const LOST_IN_BLOCK = /^\n* | $|\n +(?:\n|$)/;

/**
 * A JSON value as YAML in which every number is spelled as it came, and nothing leads a terminal astray: it is read there
 * before it is read by anything else.
 */
export function toYaml(value: JsonValue): string {
  const document = new Document(value, { customTags: (tags) => [rawNumber, ...tags], aliasDuplicateObjects: false });
  visit(document, {
    Scalar: (_key, node) => {
      if (typeof node.value !== 'string') return;
      const { value: text } = node;
      const plain = !NOT_PLAIN.test(text) && !LOST_IN_BLOCK.test(text) && sanitizeJson(text) === text;
      if (!plain) node.type = Scalar.QUOTE_DOUBLE;
    },
  });
  const text = document.toString({ lineWidth: 0, doubleQuotedMinMultiLineLength: Number.MAX_SAFE_INTEGER });
  // In double quotes, where such characters stand now, YAML has the escapes of JSON.
  return sanitizeJson(text);
}

function rawText(value: unknown): string {
  const isRaw = (candidate: unknown): candidate is RawNumber => JSON.isRawJSON(candidate);
  return isRaw(value) ? value.rawJSON : String(value);
}
