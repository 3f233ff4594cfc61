import fc from 'fast-check';
import { expect, test } from 'vitest';
import { propertyRuns } from '../../../../test/fixtures/seed.ts';
import { type JsonKind, JsonScanner, type JsonSink, MAX_TOKEN_BYTES } from './scanner.ts';

/** Calls of a sink that enters all containers up to a depth, as nested values; deeper containers as their text. */
class Tree implements JsonSink {
  readonly scanner: JsonScanner;
  readonly #bytes: Buffer;
  readonly #levels: { value: unknown; isArray: boolean; key: string | undefined; start: number; entered: boolean }[] =
    [];
  readonly #enterDepth: number;
  root: unknown = undefined;

  constructor(bytes: Buffer, enterDepth: number) {
    this.#bytes = bytes;
    this.#enterDepth = enterDepth;
    this.scanner = new JsonScanner(this);
  }

  onValue(kind: JsonKind, start: number): boolean {
    const isContainer = kind === 'object' || kind === 'array';
    const entered = !isContainer || this.#levels.length < this.#enterDepth;
    const value = isContainer ? (kind === 'array' ? [] : Object.create(null)) : undefined;
    this.#levels.push({ value, isArray: kind === 'array', key: undefined, start, entered });
    return entered;
  }

  onKey(start: number, end: number): void {
    const level = this.#levels.at(-1);
    const { token } = this.scanner;
    if (token !== undefined) expect(this.#bytes.toString('utf8', start, end)).toBe(token);
    if (level) level.key = token === undefined ? 'TOO LONG' : JSON.parse(token);
  }

  onScalar(): void {
    const level = this.#levels.at(-1);
    const { token } = this.scanner;
    if (level) level.value = token === undefined ? 'TOO LONG' : JSON.parse(token);
  }

  onEnd(end: number): void {
    const level = this.#levels.pop();
    if (!level) throw new Error('ended twice');
    const text = this.#bytes.toString('utf8', level.start, end);
    const value = level.entered ? level.value : { text };
    const parent = this.#levels.at(-1);
    if (!parent) this.root = value;
    else if (Array.isArray(parent.value)) parent.value.push(value);
    else if (parent.key !== undefined) Object.assign(parent.value as object, { [parent.key]: value });
  }
}

function scan(text: string | Buffer, positions: readonly number[] = [], enterDepth = 100): Tree {
  const bytes = Buffer.from(text);
  const tree = new Tree(bytes, enterDepth);
  let from = 0;
  for (const position of [...new Set(positions.map((at) => at % (bytes.length + 1)))].sort((a, b) => a - b)) {
    // A copy: a chunk may be reused after it was written.
    const chunk = Buffer.from(bytes.subarray(from, position));
    tree.scanner.write(chunk);
    chunk.fill(0);
    from = position;
  }
  tree.scanner.write(bytes.subarray(from));
  return tree;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** JSON, also with white space, non-ASCII keys and escapes. */
const texts = fc
  .tuple(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(0, 1, '\t'), fc.boolean())
  .map(([value, indent, escaped]) => {
    const text = JSON.stringify(value, null, indent);
    return escaped
      ? text.replaceAll(/[\u0080-\uffff]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`)
      : text;
  });
const positions = fc.array(fc.nat(), { maxLength: 12 });

test('a sink that enters everything receives what JSON.parse returns, once the text is complete', () => {
  fc.assert(
    fc.property(texts, positions, fc.nat(), (text, splits, at) => {
      const part = Buffer.from(text).subarray(0, at % Buffer.byteLength(text));
      expect(scan(part, splits).scanner).toMatchObject({ isComplete: isJson(part.toString()), isInvalid: false });
      const tree = scan(text, splits);
      const expected: unknown = JSON.parse(text);
      expect(tree.scanner.isComplete).toBe(true);
      if (typeof expected === 'number') return;
      expect(JSON.stringify(tree.root)).toBe(JSON.stringify(expected));
    }),
    { numRuns: propertyRuns(2_000) },
  );
});

test('containers that are not entered are reported with their exact range', () => {
  fc.assert(
    fc.property(texts, positions, fc.nat({ max: 2 }), (text, splits, enterDepth) => {
      const flatten = (value: unknown, depth: number): unknown => {
        if (typeof value !== 'object' || value === null) return value;
        if (depth === enterDepth) return 'container';
        if (Array.isArray(value)) return value.map((each) => flatten(each, depth + 1));
        return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, flatten(each, depth + 1)]));
      };
      const restored = (value: unknown, depth: number): unknown => {
        if (typeof value !== 'object' || value === null) return value;
        if (depth === enterDepth) {
          const container: unknown = JSON.parse('text' in value ? String(value.text) : '');
          expect(typeof container).toBe('object');
          return 'container';
        }
        if (Array.isArray(value)) return value.map((each) => restored(each, depth + 1));
        return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, restored(each, depth + 1)]));
      };
      const expected: unknown = JSON.parse(text);
      if (typeof expected === 'number') return;
      expect(restored(scan(text, splits, enterDepth).root, 0)).toEqual(flatten(expected, 0));
    }),
    { numRuns: propertyRuns(2_000) },
  );
});

test('changed JSON is complete exactly if JSON.parse accepts it, whatever is entered', () => {
  const change = fc.constantFrom(...'{}[]",:\\ 0-+.eEtfnu/\u0000\n\u001fa1', '\\u12', 'tru', '""', '01', '1.', '\\x');
  fc.assert(
    fc.property(
      texts,
      fc.nat(),
      fc.nat({ max: 3 }),
      change,
      positions,
      fc.nat({ max: 3 }),
      (text, at, removed, inserted, splits, enterDepth) => {
        const where = at % (text.length + 1);
        const changed = (text.slice(0, where) + inserted + text.slice(where + removed)).toWellFormed();
        expect(scan(changed, splits, enterDepth).scanner.isComplete, changed).toBe(isJson(changed));
      },
    ),
    { numRuns: propertyRuns(20_000) },
  );
});

test('a long string is complete exactly if JSON.parse accepts it', () => {
  const piece = fc.oneof(
    fc.nat({ max: 40 }).map((length) => 'a'.repeat(length)),
    fc.nat({ max: 20 }).map((length) => '\\'.repeat(length)),
    fc.constantFrom(
      '\\\\',
      '\\"',
      '\\n',
      '\\/',
      '\\u00e4',
      '\\ud83d',
      '\u00e4',
      '"',
      '\\u00g0',
      '\\x',
      '\u0000',
      '\u001f',
      '\u007f',
    ),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), positions, fc.boolean(), (pieces, splits, isNested) => {
      const text = isNested ? `[{"k":"${pieces.join('')}"}]` : `"${pieces.join('')}"`;
      let isJson = true;
      try {
        JSON.parse(text);
      } catch {
        isJson = false;
      }
      expect(scan(text, splits, 1).scanner.isComplete, text).toBe(isJson);
    }),
    { numRuns: propertyRuns(20_000) },
  );
});

test('nesting deeper than a chunk is validated and counted', () => {
  const depth = 3 * MAX_TOKEN_BYTES;
  const open = '[{"a":'.repeat(depth / 2);
  const close = '}]'.repeat(depth / 2);
  const { scanner } = scan(`${open}1${close}`, [100_000, 200_000, 700_000]);
  expect([scanner.isComplete, scanner.maxDepth]).toEqual([true, depth]);
  expect(scan(`${open}1${close.slice(0, -3)}}}]`).scanner.isInvalid).toBe(true);
  expect(scan(`{"a":${open}1${close}}`, [], 1).scanner.isComplete).toBe(true);
});

test('keys and scalars that are too long are passed as undefined, in any chunks', () => {
  const key = 'k'.repeat(MAX_TOKEN_BYTES);
  const text = JSON.stringify({
    [key]: 1,
    [key.slice(2)]: 'x'.repeat(MAX_TOKEN_BYTES),
    b: 'x'.repeat(MAX_TOKEN_BYTES - 2),
  });
  for (const splits of [[], [1_000, 70_000, 140_000], Array.from({ length: 500 }, (_, at) => at * 400)]) {
    const { root } = scan(text, splits);
    expect(Object.entries(root as object)).toEqual([
      ['TOO LONG', 1],
      [key.slice(2), 'TOO LONG'],
      ['b', 'x'.repeat(MAX_TOKEN_BYTES - 2)],
    ]);
  }
});

test('the offset of the first invalid byte is known', () => {
  expect(scan('{"a":1,}').scanner.offset).toBe(7);
  expect(scan('[1, tru]', [2, 5]).scanner.offset).toBe(7);
});

test('the rest of a container that the sink leaves is validated only', () => {
  const keys: (string | undefined)[] = [];
  const ends: number[] = [];
  const scanner = new JsonScanner({
    onValue: () => true,
    onKey: () => {
      keys.push(scanner.token);
      if (scanner.token === '"last"') scanner.leave();
    },
    onScalar: () => {},
    onEnd: (end) => ends.push(end),
  });
  const text = '{"a":{"first":1,"last":2,"c":{"d":[3]}},"b":{"e":1}}';
  scanner.write(Buffer.from(text));
  expect(keys).toEqual(['"a"', '"first"', '"last"', '"b"', '"e"']);
  expect(ends.map((end) => text.slice(0, end).length)).toContain(text.indexOf(',"b"'));
  expect(scanner.isComplete).toBe(true);
});

test('a sink may use other scanners while it is called', () => {
  const text =
    '{"first":{"skipped":["x",{"deep":[]}]},"second":[1,"two",{"three":3}],"long":"abcdefghijklmnopqrstuvwxyz"}';
  const other = Buffer.from(
    '[[{"unlike":"anything"}],"else","here, at any position of the first text, whatever it has"]',
  );
  /** Scans the other text in each callback. */
  class Nesting extends Tree {
    override onValue(kind: JsonKind, start: number): boolean {
      const isWanted = super.onValue(kind, start);
      useAnother();
      return isWanted;
    }
    override onKey(start: number, end: number): void {
      useAnother();
      super.onKey(start, end);
    }
    override onScalar(): void {
      useAnother();
      super.onScalar();
    }
    override onEnd(end: number): void {
      super.onEnd(end);
      useAnother();
    }
  }
  const useAnother = () => {
    const tree = new Tree(other, 100);
    tree.scanner.write(other);
    expect(tree.scanner.isComplete).toBe(true);
  };
  for (const enterDepth of [1, 2, 100]) {
    const bytes = Buffer.from(text);
    const nesting = new Nesting(bytes, enterDepth);
    for (let at = 0; at < bytes.length; at += 40) nesting.scanner.write(bytes.subarray(at, at + 40));
    expect(nesting.scanner.isComplete).toBe(true);
    expect(nesting.root).toEqual(scan(text, [], enterDepth).root);
  }
});
