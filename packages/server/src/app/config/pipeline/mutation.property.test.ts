import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Document, isScalar, type Pair, parse, parseDocument, visit, type YAMLMap } from 'yaml';
import { propertyRuns } from '../../../../../../test/fixtures/seed.ts';
import { formatPosition } from '../yaml-document.ts';
import { FULL } from './full.fixture.ts';
import { judged } from './judged-mutant.fixture.ts';
import { withoutPlaces } from './meaning.fixture.ts';
import { checkPipeline } from './parse.ts';
import { textMutants } from './text-mutants.fixture.ts';
import { treeMutants } from './tree-mutants.fixture.ts';

// Mistakes that people make in a file, at random. Whatever they are, the parser has to answer, and a file that it takes has
// to mean what stands in it: that is compared with what the contract makes of the plain values of the file. The campaign
// `pipeline` does the same many thousands of times, and starts the service.

const RUNS = { numRuns: propertyRuns(150) };
const name = 'p';

/** What a text means; undefined when it is refused, which has to be done properly. */
function meaning(text: string): object | undefined {
  const checked = checkPipeline(text, name, '/etc');
  if ('pipeline' in checked) return withoutPlaces(checked.pipeline);
  expect(checked.problems.length).toBeGreaterThan(0);
  const lines = text.split('\n').length;
  for (const { at, text: words } of checked.problems) {
    expect(formatPosition(at)).toMatch(/^p:[1-9]\d*:[1-9]\d*$/);
    expect(at.line).toBeLessThanOrEqual(lines);
    expect(words).not.toMatch(/[\n\r]/);
  }
  return undefined;
}

const ORIGINAL = meaning(FULL);

/** Every key of the file with its map, in the order of the file. */
function pairsOf(document: Document): Pair[] {
  const pairs: Pair[] = [];
  visit(document, { Pair: (_key, pair) => void pairs.push(pair) });
  return pairs;
}

const PAIRS = pairsOf(parseDocument(FULL)).length;
const anyPair = fc.nat(PAIRS - 1);

/** The keys of `headers` that a request has to have are names, not keys of ours. */
const FREE: ReadonlySet<string> = new Set(['X-Probe', 'X-Tier']);
const keyOf = ({ key }: Pair): string => (isScalar(key) ? String(key.value) : '');

/** The file with another name for one of its keys. */
function renamed(index: number, name: string): { text: string; old: string } {
  const document = parseDocument(FULL);
  const pair = pairsOf(document)[index];
  if (!pair) throw new Error('no such pair');
  const old = keyOf(pair);
  pair.key = name;
  return { text: document.toString(), old };
}

/** The file without one of its keys and all below it. */
function without(index: number): { text: string; old: string } {
  const document = parseDocument(FULL);
  const gone = pairsOf(document)[index];
  if (!gone) throw new Error('no such pair');
  visit(document, { Pair: (_key, pair) => (pair === gone ? visit.REMOVE : undefined) });
  return { text: document.toString(), old: keyOf(gone) };
}

const strangeKey = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'toString', '<<', 'Name', 'filters ', 'tls_', 'null', 'true', '1'),
  fc.string({ minLength: 1, maxLength: 12 }).filter((text) => !FULL.includes(text)),
);

const value = fc.oneof(
  fc.constantFrom<unknown[]>(
    null,
    true,
    false,
    0,
    1,
    -1,
    1.5,
    '',
    '/',
    '*',
    'GET',
    'h:1',
    'fast',
    'slow',
    'edge',
    'omit',
    [],
    {},
  ),
  fc.jsonValue({ maxDepth: 2 }),
);

describe('a pipeline file that was changed at random', () => {
  it('is one that is taken, to begin with', () => {
    expect(ORIGINAL).toBeDefined();
    expect(judged(FULL, '/etc', parse(FULL))).toMatchObject({ kind: 'taken', meaning: ORIGINAL ?? {} });
    expect(meaning(parseDocument(FULL).toString())).toEqual(ORIGINAL);
  });

  it('is refused for every key that it does not know', () => {
    fc.assert(
      fc.property(anyPair, strangeKey, (index, key) => {
        const { text, old } = renamed(index, key);
        fc.pre(!FREE.has(old));
        expect(meaning(text)).toBeUndefined();
      }),
      RUNS,
    );
  });

  it('is refused for every key that is added', () => {
    fc.assert(
      fc.property(fc.nat(200), strangeKey, value, (index, key, added) => {
        const document = parseDocument(FULL);
        const maps: YAMLMap[] = [];
        visit(document, {
          Map: (_key, map) => {
            if (!map.items.some((pair) => FREE.has(keyOf(pair)))) maps.push(map);
          },
        });
        maps[index % maps.length]?.items.push(document.createPair(key, added));
        expect(meaning(document.toString())).toBeUndefined();
      }),
      RUNS,
    );
  });

  it('is refused for every key that stands there twice', () => {
    fc.assert(
      fc.property(fc.nat(FULL.split('\n').length - 2), (index) => {
        const lines = FULL.split('\n');
        const line = lines[index] ?? '';
        fc.pre(/^ *(- )?[a-z_]+:/.test(line));
        lines.splice(index + 1, 0, line.replace('- ', '  '));
        expect(meaning(lines.join('\n'))).toBeUndefined();
      }),
      RUNS,
    );
  });

  it('means what it says, or is refused, when a value is another one', () => {
    fc.assert(
      fc.property(anyPair, value, (index, next) => {
        const document = parseDocument(FULL);
        const pair = pairsOf(document)[index];
        if (!pair) throw new Error('no such pair');
        const before = JSON.stringify(document.toJS());
        pair.value = document.createNode(next);
        const same = JSON.stringify(document.toJS()) === before;
        expect(meansItsValues(document.toString())).toBe(true);
        const after = meaning(document.toString());
        if (same) expect(after).toEqual(ORIGINAL);
        else if (after !== undefined && !meansNothing(keyOf(pair), next)) expect(after).not.toEqual(ORIGINAL);
      }),
      RUNS,
    );
  });

  it('means something else, or is refused, when a key is left out', () => {
    fc.assert(
      fc.property(anyPair, (index) => {
        const { text, old } = without(index);
        const after = meaning(text);
        if (after !== undefined && old !== 'protocol') expect(after).not.toEqual(ORIGINAL);
      }),
      RUNS,
    );
  });

  it('means something else, or is refused, when it is cut', () => {
    fc.assert(
      fc.property(fc.nat(FULL.trimEnd().length - 1), (length) => {
        const after = meaning(FULL.slice(0, length));
        if (after !== undefined) expect(after).not.toEqual(ORIGINAL);
      }),
      RUNS,
    );
  });

  it('means what YAML makes of a line that is indented otherwise', () => {
    fc.assert(
      fc.property(fc.nat(FULL.split('\n').length - 2), fc.integer({ min: -4, max: 4 }), (index, shift) => {
        fc.pre(shift !== 0);
        const lines = FULL.split('\n');
        const line = lines[index] ?? '';
        const indent = line.search(/\S/);
        lines[index] = ' '.repeat(Math.max(0, indent + shift)) + line.trimStart();
        const text = lines.join('\n');
        expect(meansItsValues(text)).toBe(true);
      }),
      RUNS,
    );
  });

  it('is answered whatever characters are put into it, and means what YAML makes of them', () => {
    const character = fc.oneof(
      fc.constantFrom(...'\t\n\r\0 :-[]{},&*!|>\'"%@`#?~'),
      fc.string({ unit: 'binary', minLength: 1, maxLength: 3 }),
    );
    fc.assert(
      fc.property(fc.nat(FULL.length), fc.nat(3), character, (at, dropped, added) => {
        expect(meansItsValues(FULL.slice(0, at) + added + FULL.slice(at + dropped))).toBe(true);
      }),
      RUNS,
    );
  });

  const ways: Record<string, number> = {};
  const taken = (way: string, kind: string) => {
    ways[`${way} ${kind}`] = (ways[`${way} ${kind}`] ?? 0) + 1;
  };

  it('means what the contract makes of its values, known beforehand, or is refused', () => {
    fc.assert(
      fc.property(treeMutants(FULL), ({ text, values }) => {
        const verdict = judged(text, '/etc', values);
        taken('values', verdict.kind);
        expect(verdict).not.toHaveProperty('why');
      }),
      { numRuns: propertyRuns(300) },
    );
    // Both happen, or nothing was tried.
    expect(Math.min(ways['values taken'] ?? 0, ways['values refused'] ?? 0)).toBeGreaterThan(0);
  });

  it('means what the contract makes of its text, or is refused', () => {
    fc.assert(
      fc.property(textMutants(FULL), (text) => {
        const verdict = judged(text, '/etc');
        taken('text', verdict.kind);
        expect(verdict).not.toHaveProperty('why');
      }),
      { numRuns: propertyRuns(300) },
    );
    expect(Math.min(ways['text taken'] ?? 0, ways['text refused'] ?? 0)).toBeGreaterThan(0);
  });

  it('is answered whatever it is', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ maxLength: 200 }),
          fc.jsonValue().map((json) => JSON.stringify(json)),
        ),
        (text) => {
          expect(meaning(text)).toBeUndefined();
        },
      ),
      RUNS,
    );
  });
});

/** Whether a text that is taken means what its plain values do. True for what is refused. */
function meansItsValues(text: string): boolean {
  const verdict = judged(text, '/etc');
  if (verdict.kind === 'wrong') throw new Error(verdict.why);
  return true;
}

/** Changes that are none: that the key `tls` of a cluster is there is all that it says. */
function meansNothing(key: string, next: unknown): boolean {
  return key === 'tls' && (next === null || (typeof next === 'object' && Object.keys(next).length === 0));
}
