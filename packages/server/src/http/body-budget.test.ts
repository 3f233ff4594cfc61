import { beforeEach, describe, expect, it } from 'vitest';
import { BodyBudget, type BodyReservation } from './body-budget.ts';

let now: number;
let budget: BodyBudget;
/** Names of the uploads that were ended to make room. */
let ended: string[];
beforeEach(() => {
  now = 0;
  budget = new BodyBudget(1_000, () => now);
  ended = [];
});

/** Opens an upload and takes memory for it; undefined if there is none. */
function upload(name: string, bytes: number, namespace = 'a', user = 'ann'): BodyReservation | undefined {
  const reservation = budget.open({ namespace, name: user }, () => ended.push(name));
  return reservation.grow(bytes) ? reservation : undefined;
}

it('admits bodies up to the limit, and again when requests are over', () => {
  const first = upload('first', 600);
  upload('second', 400);
  expect(budget.used).toBe(1_000);
  expect(upload('third', 1)).toBeUndefined();
  first?.release();
  first?.release();
  expect(budget.used).toBe(400);
  expect(upload('third', 600)).toBeDefined();
  expect(ended).toEqual([]);
});

it('counts the growth of a body once', () => {
  const body = upload('body', 100);
  expect(body?.grow(700)).toBe(true);
  expect(body?.grow(600)).toBe(true);
  expect(budget.used).toBe(700);
});

describe('when the memory is used up', () => {
  it('ends the slowest upload of the largest namespace for one that has less than its share', () => {
    upload('slow', 300);
    upload('slower', 200);
    upload('fast', 500);
    now = 1_500;
    expect(upload('other', 100, 'b')).toBeDefined();
    expect(ended).toEqual(['slower']);
    expect(budget.used).toBe(900);
    expect(upload('larger', 350, 'b')).toBeDefined();
    expect(ended).toEqual(['slower', 'slow']);
  });

  it('ends the oldest one if no upload is old enough to be measured', () => {
    upload('old', 500);
    now = 10;
    upload('new', 500);
    now = 20;
    expect(upload('other', 100, 'b')).toBeDefined();
    expect(ended).toEqual(['old']);
  });

  it('ends uploads of the largest user of the largest namespace', () => {
    upload('small', 100, 'a', 'bob');
    upload('large', 500, 'a', 'ann');
    upload('medium', 400, 'b', 'ann');
    now = 5_000;
    expect(upload('third', 50, 'c')).toBeDefined();
    expect(ended).toEqual(['large']);
  });

  it('ends an upload of the largest user of the same namespace for a user that has less than its share', () => {
    upload('large', 900, 'a', 'ann');
    upload('medium', 100, 'a', 'bob');
    expect(upload('other', 100, 'a', 'eve')).toBeDefined();
    expect(ended).toEqual(['large']);
  });

  it('rejects a namespace that has its share', () => {
    upload('a', 400, 'a');
    upload('b', 600, 'b');
    expect(upload('more', 100, 'b', 'bob')).toBeDefined();
    // The other user of b made room, not a.
    expect(ended).toEqual(['b']);
    expect(upload('large', 500, 'b', 'bob')).toBeDefined();
    expect(upload('too much', 100, 'b', 'bob')).toBeUndefined();
    expect(ended).toEqual(['b']);
  });

  it('ends slower uploads of the same user for a new one, and not those that it cannot measure or that are faster', () => {
    upload('stuck', 500);
    now = 900;
    expect(upload('too early', 600)).toBeUndefined();
    now = 1_000;
    expect(upload('new', 600)).toBeDefined();
    expect(ended).toEqual(['stuck']);
    now = 10_000;
    upload('slow', 400)?.complete();
    const late = budget.open({ namespace: 'a', name: 'ann' }, () => ended.push('late'));
    now = 100_000;
    // `new` has 600 bytes in 99 s, `late` has none in 90 s.
    expect(late.grow(10)).toBe(false);
    expect(ended).toEqual(['stuck']);
  });

  it('does not end requests whose bodies are complete', () => {
    upload('done', 1_000)?.complete();
    now = 5_000;
    expect(upload('other', 1, 'b')).toBeUndefined();
    expect(ended).toEqual([]);
    expect(budget.used).toBe(1_000);
  });
});
