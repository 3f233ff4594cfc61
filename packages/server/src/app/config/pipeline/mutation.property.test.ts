import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Document, isScalar, type Pair, parse, parseDocument, visit, type YAMLMap } from 'yaml';
import { anyCharacter } from '../../../../../../test/fixtures/any-character.ts';
import { propertyRuns } from '../../../../../../test/fixtures/seed.ts';
import { formatPosition } from '../yaml-document.ts';
import { checkMutant } from './check-mutant.fixture.ts';
import { comparablePipeline } from './comparable.fixture.ts';
import { FULL } from './full.fixture.ts';
import { checkPipeline } from './parse.ts';
import { textMutants } from './text-mutants.fixture.ts';
import { treeMutants } from './tree-mutants.fixture.ts';

// Random mistakes in a file. The parser must either reject the file properly or parse it according to its plain values,
// which an independent implementation of the contract checks. The campaign `pipeline` does the same with many more
// mutants, and starts the service.

const RUNS = { numRuns: propertyRuns(150) };
const name = 'p';

/** Parsed pipeline without positions; undefined if the text is properly rejected. */
function meaning(text: string): object | undefined {
  const checked = checkPipeline(text, name, '/etc');
  if ('pipeline' in checked) return comparablePipeline(checked.pipeline);
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

/** All keys of the file with their maps, in the order of the file. */
function pairsOf(document: Document): Pair[] {
  const pairs: Pair[] = [];
  visit(document, { Pair: (_key, pair) => void pairs.push(pair) });
  return pairs;
}

const PAIRS = pairsOf(parseDocument(FULL)).length;
const anyPair = fc.nat(PAIRS - 1);

/** Keys of `headers` in conditions and routes are header names. */
const FREE: ReadonlySet<string> = new Set(['X-Probe', 'X-Tier']);
const keyOf = ({ key }: Pair): string => (isScalar(key) ? String(key.value) : '');

/** Renames one key of the file. */
function renamed(index: number, name: string): { text: string; old: string } {
  const document = parseDocument(FULL);
  const pair = pairsOf(document)[index];
  if (!pair) throw new Error('no such pair');
  const old = keyOf(pair);
  pair.key = name;
  return { text: document.toString(), old };
}

/** Removes one key of the file with its value. */
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

describe('a mutated pipeline file', () => {
  it('is valid before it is mutated', () => {
    expect(ORIGINAL).toBeDefined();
    expect(checkMutant(FULL, '/etc', parse(FULL))).toMatchObject({ kind: 'accepted', meaning: ORIGINAL ?? {} });
    expect(meaning(parseDocument(FULL).toString())).toEqual(ORIGINAL);
  });

  it('is rejected for every renamed key', () => {
    fc.assert(
      fc.property(anyPair, strangeKey, (index, key) => {
        const { text, old } = renamed(index, key);
        fc.pre(!FREE.has(old));
        expect(meaning(text)).toBeUndefined();
      }),
      RUNS,
    );
  });

  it('is rejected for every added key', () => {
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

  it('is rejected for every duplicate key', () => {
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

  it('is rejected or parsed according to its values if a value changes', () => {
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

  it('is rejected or differs if a key is removed', () => {
    fc.assert(
      fc.property(anyPair, (index) => {
        const { text, old } = without(index);
        const after = meaning(text);
        if (after !== undefined && old !== 'protocol') expect(after).not.toEqual(ORIGINAL);
      }),
      RUNS,
    );
  });

  it('is rejected or differs if it is truncated', () => {
    fc.assert(
      fc.property(fc.nat(FULL.trimEnd().length - 1), (length) => {
        const after = meaning(FULL.slice(0, length));
        if (after !== undefined) expect(after).not.toEqual(ORIGINAL);
      }),
      RUNS,
    );
  });

  it('is parsed according to YAML if an indentation changes', () => {
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

  it('is rejected or parsed according to YAML if characters are inserted', () => {
    const character = fc.oneof(
      fc.constantFrom(...'\t\n\r\0 :-[]{},&*!|>\'"%@`#?~'),
      fc.string({ unit: anyCharacter, minLength: 1, maxLength: 3 }),
    );
    fc.assert(
      fc.property(fc.nat(FULL.length), fc.nat(3), character, (at, dropped, added) => {
        expect(meansItsValues(FULL.slice(0, at) + added + FULL.slice(at + dropped))).toBe(true);
      }),
      RUNS,
    );
  });

  const counts: Record<string, number> = {};
  const count = (source: string, kind: string) => {
    counts[`${source} ${kind}`] = (counts[`${source} ${kind}`] ?? 0) + 1;
  };

  it('is rejected or parsed according to the contract for known values', () => {
    fc.assert(
      fc.property(treeMutants(FULL), ({ text, values }) => {
        const verdict = checkMutant(text, '/etc', values);
        count('values', verdict.kind);
        expect(verdict).not.toHaveProperty('why');
      }),
      { numRuns: propertyRuns(300) },
    );
    // Fails if the mutants are all valid or all invalid.
    expect(Math.min(counts['values accepted'] ?? 0, counts['values rejected'] ?? 0)).toBeGreaterThan(0);
  });

  it('is rejected or parsed according to the contract for a mutated text', () => {
    fc.assert(
      fc.property(textMutants(FULL), (text) => {
        const verdict = checkMutant(text, '/etc');
        count('text', verdict.kind);
        expect(verdict).not.toHaveProperty('why');
      }),
      { numRuns: propertyRuns(300) },
    );
    expect(Math.min(counts['text accepted'] ?? 0, counts['text rejected'] ?? 0)).toBeGreaterThan(0);
  });

  it('never makes the parser throw', () => {
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

/** Returns whether a text is rejected or parsed according to its plain values. */
function meansItsValues(text: string): boolean {
  const verdict = checkMutant(text, '/etc');
  if (verdict.kind === 'wrong') throw new Error(verdict.why);
  return true;
}

/** Changes without effect: only the presence of a cluster's `tls` matters. */
function meansNothing(key: string, next: unknown): boolean {
  return key === 'tls' && (next === null || (typeof next === 'object' && Object.keys(next).length === 0));
}
