import { beforeEach, describe, expect, it } from 'vitest';
import { BodyBudget, type BodyReservation } from './body-budget.ts';
import type { QuotaOwner } from './quota.ts';

let now: number;
let budget: BodyBudget;
/** Names of the uploads that were ended. */
let ended: string[];
beforeEach(() => {
  now = 0;
  budget = new BodyBudget(1_000, () => now);
  ended = [];
});

/** Opens an upload and takes memory for it; undefined if there is none. */
function upload(name: string, bytes: number, user = 'ann', namespace = 'a'): BodyReservation | undefined {
  const owner: QuotaOwner = { namespace, name: user };
  const reservation = budget.open(owner, () => ended.push(name));
  return reservation.grow(bytes) ? reservation : undefined;
}

it('admits bodies up to the quota of their owner, and again when requests are over', () => {
  const first = upload('first', 466);
  upload('second', 200);
  expect(budget.used).toBe(666);
  expect(upload('third', 1)).toBeUndefined();
  first?.release();
  first?.release();
  expect(budget.used).toBe(200);
  expect(upload('third', 466)).toBeDefined();
  expect(ended).toEqual([]);
});

it('counts the growth of a body once', () => {
  const body = upload('body', 100);
  expect(body?.grow(650)).toBe(true);
  expect(body?.grow(600)).toBe(true);
  expect(budget.used).toBe(650);
});

describe('when an owner has used up its quota', () => {
  it('others are served, whatever it sends and how slowly, and none of its uploads is ended for them', () => {
    upload('slow', 200);
    upload('slower', 150);
    upload('fast', 300);
    now = 1_500;
    expect(upload('other', 100, 'bob')).toBeDefined();
    expect(upload('another', 50, 'eve')).toBeDefined();
    expect(ended).toEqual([]);
    expect(budget.used).toBe(800);
  });

  it('it has no more in other namespaces', () => {
    upload('large', 600, 'ann', 'a');
    expect(upload('more', 100, 'ann', 'b')).toBeUndefined();
    expect(ended).toEqual([]);
  });

  it('its slower uploads are ended for a new one, and not those that cannot be measured or that are faster', () => {
    upload('stuck', 400);
    now = 900;
    expect(upload('too early', 500)).toBeUndefined();
    now = 1_000;
    expect(upload('new', 500)).toBeDefined();
    expect(ended).toEqual(['stuck']);
    now = 10_000;
    upload('slow', 100)?.complete();
    const late = budget.open({ namespace: 'a', name: 'ann' }, () => ended.push('late'));
    now = 100_000;
    // `new` has 500 bytes in 99 s, `late` has none in 90 s.
    expect(late.grow(100)).toBe(false);
    expect(ended).toEqual(['stuck']);
  });

  it('the slowest of them is ended first', () => {
    upload('slow', 250);
    upload('slower', 150);
    upload('fast', 250);
    now = 1_500;
    expect(upload('new', 100)).toBeDefined();
    expect(ended).toEqual(['slower']);
    expect(upload('larger', 250)).toBeDefined();
    expect(ended).toEqual(['slower', 'slow']);
  });

  it('requests whose bodies are complete are not ended', () => {
    upload('done', 660)?.complete();
    now = 5_000;
    expect(upload('other', 7)).toBeUndefined();
    expect(ended).toEqual([]);
    expect(budget.used).toBe(660);
  });
});
