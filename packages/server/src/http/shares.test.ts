import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { propertyRuns } from '../../../../test/fixtures/seed.ts';
import { ANONYMOUS, createUser } from '../identity/principal.ts';
import { type QuotaOwner, quotaOwner, Shares } from './shares.ts';

let shares: Shares<string>;
let displaced: string[];
beforeEach(() => {
  shares = new Shares(100);
  displaced = [];
});

function add(item: string, holder: QuotaOwner, amount: number): boolean {
  if (!shares.makeRoom(holder, amount, (victim) => displaced.push(victim))) return false;
  shares.set(item, holder, amount);
  return true;
}

const holder = (namespace: string, name = 'u'): QuotaOwner => ({ namespace, name });

describe('a total that is used up', () => {
  it('displaces the oldest items of the largest namespace for one below its share', () => {
    for (let n = 0; n < 10; n++) expect(add(`a${n}`, holder('a'), 10)).toBe(true);
    expect(add('b0', holder('b'), 15)).toBe(true);
    expect(displaced).toEqual(['a0', 'a1']);
    expect(shares.used).toBe(95);
  });

  it('gives a namespace with its share no more', () => {
    for (let n = 0; n < 5; n++) {
      add(`a${n}`, holder('a'), 10);
      add(`b${n}`, holder('b'), 10);
    }
    expect(add('a5', holder('a'), 10)).toBe(false);
    expect(add('b5', holder('b'), 10)).toBe(false);
    expect(displaced).toEqual([]);
  });

  it('is shared by the users of a namespace in the same way', () => {
    for (let n = 0; n < 9; n++) add(`x${n}`, holder('a', 'x'), 10);
    add('z0', holder('a', 'z'), 10);
    expect(add('y0', holder('a', 'y'), 10)).toBe(true);
    expect(displaced).toEqual(['x0']);
    expect(add('x9', holder('a', 'x'), 10)).toBe(false);
    // The largest user of the largest namespace makes room for others.
    expect(add('b0', holder('b', 'z'), 10)).toBe(true);
    expect(displaced).toEqual(['x0', 'x1']);
  });

  it('displaces nothing for more than the total', () => {
    add('a0', holder('a'), 100);
    expect(add('b0', holder('b'), 101)).toBe(false);
    expect(displaced).toEqual([]);
  });
});

it('the largest holder is always known, and nothing is left of removed items', () => {
  const operation = fc.record({
    item: fc.integer({ min: 0, max: 30 }),
    namespace: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    user: fc.constantFrom('x', 'y', 'z'),
    amount: fc.integer({ min: 0, max: 9 }),
    isRemoved: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 80 }), (operations) => {
      const tested = new Shares<number>(1);
      const model = new Map<number, { namespace: string; user: string; amount: number }>();
      const sums = (key: (one: { namespace: string; user: string }) => string) => {
        const result = new Map<string, number>();
        for (const one of model.values()) result.set(key(one), (result.get(key(one)) ?? 0) + one.amount);
        return result;
      };
      for (const { item, isRemoved, ...rest } of operations) {
        if (isRemoved) expect(tested.delete(item)).toBe(model.delete(item));
        else {
          const { namespace, user } = model.get(item) ?? rest;
          tested.set(item, { namespace, name: user }, rest.amount);
          model.set(item, { namespace, user, amount: rest.amount });
        }
        const namespaces = sums(({ namespace }) => namespace);
        const users = sums(({ namespace, user }) => `${namespace} ${user}`);
        expect([tested.size, tested.used]).toEqual([model.size, [...namespaces.values()].reduce((a, b) => a + b, 0)]);
        const [first] = tested.displaceable({ namespace: 'new', name: 'new' });
        if (model.size === 0) {
          expect(first).toBeUndefined();
          continue;
        }
        const found = model.get(first ?? -1);
        expect(found).toBeDefined();
        if (!found) continue;
        expect(namespaces.get(found.namespace)).toBe(Math.max(...namespaces.values()));
        const own = [...users].filter(([key]) => key.startsWith(`${found.namespace} `)).map(([, amount]) => amount);
        expect(users.get(`${found.namespace} ${found.user}`)).toBe(Math.max(...own));
      }
    }),
    { numRuns: propertyRuns(300) },
  );
});

describe('the owner of an item is', () => {
  const ann = createUser('ann', 'proxy');
  it.each([
    ['a principal, wherever it is', ann, '192.0.2.1', 'user:ann'],
    ['an address, if nobody is authenticated', ANONYMOUS, '192.0.2.1', 'address:192.0.2.1'],
    ['never an address for a user with such a name', createUser('192.0.2.1', 'proxy'), '::1', 'user:192.0.2.1'],
    ['nor a user for one with the name of another kind', createUser('address:::1', 'proxy'), '::1', 'user:address:::1'],
    ['nobody in particular without either', ANONYMOUS, undefined, 'address:'],
  ])('%s', (_, principal, address, name) => {
    expect(quotaOwner('a', principal, address)).toEqual({ namespace: 'a', name });
  });

  it('as short for a long name', () => {
    const [one, two] = ['1', '2'].map((end) =>
      quotaOwner('a', createUser('x'.repeat(1_000) + end, 'proxy'), undefined),
    );
    expect(one?.name).toHaveLength(43);
    expect(one?.name).not.toBe(two?.name);
  });
});
