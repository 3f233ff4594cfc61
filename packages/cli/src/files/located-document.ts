import { type JsonValue, parseLossless } from '@sluice/protocol/json/parse';
import { type BoundedYaml, parseBoundedYaml, startOf } from '@sluice/server/yaml';
import { isNode, isScalar, visit } from 'yaml';
import { Failure } from '../failure.ts';
import { parseJsonText } from './read-file.ts';

/** Keys and indexes from the root to a value. */
export type KeyPath = readonly PropertyKey[];

/** A YAML or JSON document with positions. Numbers are unchanged. */
export interface LocatedDocument {
  /** null for an empty document. */
  readonly content: JsonValue;
  /** Returns `{name}:{line}:{column}` of a key, or of the deepest existing part of the path. */
  readonly positionOf: (path: KeyPath) => string;
}

/** Parses YAML or JSON. `name` is the name for messages. Throws {@link Failure} with the position. */
export function parseLocated(text: string, name: string): LocatedDocument {
  const json = parseJsonText(text, name);
  if (json === undefined) {
    const parsed = readYaml(text, name);
    const [problem] = parsed.problems;
    if (problem !== undefined) throw new Failure(problem);
    return { content: toJson(parsed), positionOf: parsed.positionOf };
  }
  // Parsed as YAML once, when the first position is requested.
  let parsed: ParsedYaml | undefined;
  return {
    content: json,
    positionOf: (path) => {
      parsed ??= readYaml(text, name);
      // JSON may exceed the limits of YAML.
      return parsed.problems.length === 0 ? parsed.positionOf(path) : name;
    },
  };
}

interface ParsedYaml {
  readonly yaml: BoundedYaml;
  /** Each with its position. */
  readonly problems: readonly string[];
  readonly at: (offset: number) => string;
  readonly positionOf: (path: KeyPath) => string;
}

function readYaml(text: string, name: string): ParsedYaml {
  // Merge keys are not part of YAML 1.2, but users of anchors expect them.
  const yaml = parseBoundedYaml(text, { intAsBigInt: true, merge: true });
  const at = (offset: number): string => {
    const { line, col } = yaml.lines.linePos(offset);
    // The counter has no lines before the first one is parsed.
    return `${name}:${Math.max(line, 1)}:${Math.max(col, 1)}`;
  };
  const { errors, warnings } = yaml.document;
  const problems = [
    ...[...errors, ...warnings].map(({ pos, message }) => `${at(pos[0])}: ${oneLine(message)}`),
    ...yaml.problems.map(({ offset, text: problem }) => `${at(offset)}: ${problem}`),
  ];
  return { yaml, problems, at, positionOf: (path) => at(yaml.offsetOf(path)) };
}

const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

function toJson({ yaml, at }: ParsedYaml): JsonValue {
  visit(yaml.document, {
    Map: (_key, { items }) => {
      const seen = new Set<string>();
      for (const { key } of items) {
        if (!isScalar(key) || key.value === '<<') continue;
        // As object members, 1 and "1" are the same key.
        const name = String(key.value);
        if (seen.has(name)) throw new Failure(`${at(startOf(key))}: duplicate key ${name}`);
        seen.add(name);
      }
    },
    Pair: (_key, { key }) => {
      if (!isScalar(key)) throw new Failure(`${at(isNode(key) ? startOf(key) : 0)}: keys must be strings`);
    },
    Scalar: (key, node) => {
      const { value, source = '' } = node;
      if (key === 'key' || (typeof value !== 'number' && typeof value !== 'bigint')) return;
      if (typeof value === 'number' && !Number.isFinite(value)) {
        if (!JSON_NUMBER.test(source)) throw new Failure(`${at(startOf(node))}: ${source} is not a JSON number`);
      }
      // Numbers in YAML-only notation (0x1f, +1, 007) are converted to JSON notation.
      node.value = parseLossless(JSON_NUMBER.test(source) ? source : String(value));
    },
  });
  const value: JsonValue = yaml.toPlain();
  return value;
}

function oneLine(message: string): string {
  return message.replace(/\s+/g, ' ').trim();
}
