import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { propertyRuns } from '../../../../test/fixtures/seed.ts';
import { ANONYMOUS, createUser } from '../identity/principal.ts';
import { Quota, type QuotaOwner, quotaOwner } from './quota.ts';

const user = (name: string, namespace = 'n') => quotaOwner(namespace, createUser(name, 'proxy'), '192.0.2.1');
const address = (name: string, namespace = 'n') => quotaOwner(namespace, ANONYMOUS, name);

/** Adds items of this amount until the owner may have no more; returns how many. */
function fill(quota: Quota<unknown>, owner: QuotaOwner, amount = 1): number {
  let count = 0;
  while (quota.reserve({}, owner, amount)) count++;
  return count;
}

describe('a total', () => {
  it.each([
    ['one owner', 1, [66]],
    ['two owners', 2, [66, 22]],
    ['four owners', 4, [66, 22, 8, 2]],
  ])('is not used up by %s: each gets at most twice what is free, the first one first', (_, owners, counts) => {
    const quota = new Quota(100);
    expect(Array.from({ length: owners }, (_, at) => fill(quota, user(`${at}`)))).toEqual(counts);
  });

  it('is divided equally between owners that are equally fast', () => {
    const quota = new Quota(5_000);
    const owners = ['ann', 'bob'].map((name) => user(name));
    for (let at = 0; at < 2_500; at++) for (const owner of owners) quota.reserve({}, owner, 1);
    expect(owners.map((owner) => [...quota.items(owner)].length)).toEqual([2_000, 2_000]);
  });

  it('has something for a new owner at once, however much others have and want, and takes nothing from them', () => {
    const quota = new Quota(1_000);
    const ann = fill(quota, user('ann'));
    for (const name of ['bob', 'eve', 'joe']) {
      expect(fill(quota, user('ann'))).toBe(0);
      expect(fill(quota, user(name))).toBeGreaterThan(5);
    }
    expect([...quota.items(user('ann'))].length).toBe(ann);
  });

  it('gives an owner more again when others release', () => {
    const quota = new Quota<string>(100);
    for (let at = 0; at < 66; at++) quota.set(`ann ${at}`, user('ann'), 1);
    expect(fill(quota, user('bob'))).toBe(22);
    for (let at = 0; at < 66; at++) quota.delete(`ann ${at}`);
    expect(fill(quota, user('bob'))).toBe(44);
  });

  it('cannot be used up through several namespaces by a principal; an address is an owner in each of them', () => {
    const quota = new Quota(100);
    expect(fill(quota, user('ann', 'a'))).toBe(66);
    expect(fill(quota, user('ann', 'b'))).toBe(0);
    expect(fill(quota, address('192.0.2.1', 'a'))).toBe(22);
    expect(fill(quota, address('192.0.2.1', 'b'))).toBe(8);
  });

  it('gives nobody more than is free', () => {
    const quota = new Quota<string>(100);
    expect(quota.reserve('a', user('ann'), 67)).toBe(false);
    expect(quota.reserve('a', user('ann'), 66)).toBe(true);
    expect(quota.reserve('b', user('bob'), 23)).toBe(false);
    expect(quota.reserve('b', user('bob'), 22)).toBe(true);
    // Never for less than an item has.
    expect(quota.reserve('a', user('ann'), 65)).toBe(true);
    expect(quota.used).toBe(87);
  });

  it.each([
    [0, [0]],
    [1, [1, 0]],
    [2, [1, 1, 0]],
    [3, [2, 1, 0]],
    [4, [2, 1, 1, 0]],
    [5, [3, 1, 1, 0]],
  ])('of %i is divided as %j', (limit, counts) => {
    const quota = new Quota(limit);
    expect(counts.map((_, at) => fill(quota, user(`${at}`)))).toEqual(counts);
  });
});

describe('the oldest items of an owner', () => {
  it('are evicted for newer ones of the same owner only', () => {
    const quota = new Quota<string>(5);
    for (const item of ['a1', 'a2', 'a3']) quota.set(item, user('ann'), 1);
    const evicted: string[] = [];
    const evict = (owner: QuotaOwner) => quota.evict(owner, 1, (item) => evicted.push(item));
    expect(evict(user('ann'))).toBe(true);
    quota.set('a4', user('ann'), 1);
    expect([evicted, evict(user('bob'))]).toEqual([['a1'], true]);
    quota.set('b1', user('bob'), 1);
    quota.set('e1', user('eve'), 1);
    expect(evict(user('joe'))).toBe(false);
    expect(evict(user('bob'))).toBe(true);
    expect(evicted).toEqual(['a1', 'b1']);
  });

  it('are evicted step by step when others have made its quota smaller', () => {
    const quota = new Quota<string>(100);
    for (let at = 0; at < 66; at++) quota.set(`a${at}`, user('ann'), 1);
    fill(quota, user('bob'));
    const evicted: string[] = [];
    expect(quota.evict(user('ann'), 1, (item) => evicted.push(item))).toBe(true);
    expect(evicted).toEqual(['a0', 'a1']);
  });
});

it('what each owner has is always known, some is left for a new one, and nothing is left of removed items', () => {
  const operation = fc.record({
    item: fc.integer({ min: 0, max: 30 }),
    owner: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    amount: fc.integer({ min: 0, max: 90 }),
    isRemoved: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 80 }), (operations) => {
      const tested = new Quota<number>(100);
      const model = new Map<number, { owner: string; amount: number }>();
      const usedBy = (name: string) =>
        [...model.values()].reduce((sum, { owner, amount }) => sum + (owner === name ? amount : 0), 0);
      for (const { item, isRemoved, ...added } of operations) {
        const { owner, amount } = { ...added, owner: model.get(item)?.owner ?? added.owner };
        if (isRemoved) expect(tested.delete(item)).toBe(model.delete(item));
        else if (tested.reserve(item, user(owner), amount)) {
          const more = amount - (model.get(item)?.amount ?? 0);
          model.set(item, { owner, amount });
          const free = 100 - tested.used;
          if (more > 0) expect(usedBy(owner)).toBeLessThanOrEqual(Math.max(1, 2 * free));
        }
        const names = ['a', 'b', 'c', 'd', 'e'];
        expect([tested.size, tested.used]).toEqual([model.size, names.reduce((sum, name) => sum + usedBy(name), 0)]);
        expect(names.flatMap((name) => [...tested.items(user(name))]).length).toBe(model.size);
        const free = 100 - tested.used;
        expect(free).toBeGreaterThanOrEqual(0);
        expect(tested.allows(user('new'), Math.max(1, Math.floor((2 * free) / 3)))).toBe(free > 0);
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
