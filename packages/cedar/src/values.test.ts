import { describe, expect, it } from 'vitest';
import { DateTime, Decimal, Duration } from './extension-values.ts';
import { IpRange } from './ip-range.ts';
import { add, floorTo, multiply, subtract, toLong } from './long.ts';
import {
  ANYTHING,
  CedarRecord,
  CedarSet,
  Entity,
  equals,
  Failure,
  problemOf,
  type Result,
  type Value,
} from './values.ts';

// What the reference implementation cannot be given: everything else is compared with it in agreement.test.ts.

const MAX = 2n ** 63n - 1n;

describe('integers of 64 bits', () => {
  it.each([
    [add(2 ** 53 - 1, 1), 2n ** 53n],
    [subtract(2n ** 53n, 1), 2 ** 53 - 1],
    [add(MAX, 1), undefined],
    [subtract(-(2n ** 63n), 1), undefined],
    [multiply(2 ** 32, 2 ** 31), undefined],
    [multiply(2 ** 32, -(2 ** 31)), -(2n ** 63n)],
    [multiply(0, -5), 0],
    [floorTo(-1, 1_000), -1_000],
    [floorTo(-1_000, 1_000), -1_000],
    [floorTo(-(2n ** 63n), 86_400_000), undefined],
    [toLong(-(2n ** 63n) - 1n), undefined],
  ])('%s', (result, expected) => {
    expect(result).toBe(expected);
  });
});

function record(members: Readonly<Record<string, Result>>): CedarRecord {
  return CedarRecord.of(new Map(Object.entries(members)));
}

/** A set of sets: comparing pairs of elements would take `8 ** (2 * depth)` steps. */
function nested(depth: number, leaf: Value): CedarSet {
  return new CedarSet(Array.from({ length: 4 }, (_, at) => (depth === 0 ? leaf : nested(depth - 1, `${leaf}${at}`))));
}

describe('equality', () => {
  it.each<[string, Value, Value, ReturnType<typeof equals>]>([
    ['integers beyond 2^53', 2n ** 53n, 2n ** 53n, true],
    ['a text and a number', '1', 1, false],
    ['a text that looks like another value', '["a"]', new CedarSet(['a']), false],
    ['an entity and a text of its key', new Entity('U', 'a'), new Entity('U', 'a').key, false],
    ['entities whose keys could be confused', new Entity('U', 'a"'), new Entity('U', 'a'), false],
    ['sets in another order, with repeated elements', new CedarSet([1, 2, 2]), new CedarSet([2, 1]), true],
    ['a set and a record', new CedarSet([]), record({}), false],
    ['extension values of two types', new Duration(1), new DateTime(1), false],
    ['a range and its first address', IpRange.parse('10.0.0.0/8') ?? 0, IpRange.parse('10.0.0.0') ?? 0, false],
    ['records with other members', record({ a: 1, b: 2 }), record({ a: 1, c: 2 }), false],
    ['records with a member that is not known', record({ a: 1, b: ANYTHING }), record({ a: 1, b: 2 }), ANYTHING],
    ['records that differ beside it', record({ a: 1, b: ANYTHING }), record({ a: 2, b: 2 }), false],
    ['deep sets', nested(5, 'a'), nested(5, 'a'), true],
    ['deep sets that differ', nested(5, 'a'), nested(5, 'b'), false],
  ])('%s', (_what, one, other, expected) => {
    expect(equals(one, other)).toBe(expected);
    expect(equals(other, one)).toBe(expected);
  });

  it('of records with a member without value is that failure', () => {
    const failure = new Failure('null has no value');
    const broken = record({ a: record({ b: failure }) });
    expect(equals(broken, record({ a: record({ b: 1 }) }))).toBe(failure);
    expect(problemOf(broken)).toBe(failure);
    expect(problemOf(record({ a: record({ b: ANYTHING }) }))).toBe(ANYTHING);
  });

  it('finds elements among many and among few', () => {
    for (const count of [3, 100]) {
      const set = new CedarSet(Array.from({ length: count }, (_, at) => record({ at })));
      expect([set.has(record({ at: 2 })), set.has(record({ at: -1 })), set.has(2)]).toEqual([true, false, false]);
      const texts = new CedarSet(Array.from({ length: count }, (_, at) => `${at}`));
      expect([texts.has('2'), texts.has(2), texts.has('-')]).toEqual([true, false, false]);
    }
  });
});

describe('texts that are no values', () => {
  it.each(['1.00000', '1e5', ' 1.0', '1.0 ', `${'9'.repeat(2_000)}.0`, '\u0661.0'])('decimal %s', (text) => {
    expect(Decimal.parse(text)).toBeUndefined();
  });
  it.each(['1h\n', '\u0661h', `${'0'.repeat(2_000)}h`])('duration %s', (text) => {
    expect(Duration.parse(text)).toBeUndefined();
  });
  it.each(['2024-01-01\n', '2024-01-01T00:00:00z', '2024-02-29T00:00:00+00:00', '2023-02-29'])(
    'datetime %s',
    (text) => {
      expect(DateTime.parse(text)).toBeUndefined();
    },
  );
  it.each(['1.2.3.4\n', '1.2.3.4/', '1.2.3.4/-1', '[::1]', '::1%1', '1:'])('ipaddr %s', (text) => {
    expect(IpRange.parse(text)).toBeUndefined();
  });
});
