import { expect, test } from 'vitest';
import { Blocks, blockedForward } from './blocks.ts';
import { ANONYMOUS } from './principal.ts';

/** Blocks at a time that the test sets. */
function blocksAt(now: number, retainMs = 1_000) {
  const clock = { now };
  return { clock, blocks: new Blocks(retainMs, () => clock.now) };
}

test('a block has effect until its end, whatever the kind of the principal', () => {
  const { clock, blocks } = blocksAt(100);
  expect(blocks.isBlocked({ id: 'ann' })).toBe(false);
  blocks.set('ann', { since: 100, until: 200 });
  blocks.set('keys/nightly', { since: 100 });
  expect(blocks.isBlocked({ id: 'ann' })).toBe(true);
  expect(blocks.isBlocked({ id: 'bob' })).toBe(false);
  expect(blocks.isBlocked(ANONYMOUS)).toBe(false);
  clock.now = 200;
  expect(blocks.isBlocked({ id: 'ann' })).toBe(false);
  expect(blocks.active('ann')).toBeUndefined();
  expect(blocks.isBlocked({ id: 'keys/nightly' })).toBe(true);
});

test('what was opened up to the end of a block is over, as long as that is known', () => {
  const { blocks } = blocksAt(100);
  blocks.set('ann', { since: 50, until: 80 });
  expect(blocks.wasBlockedSince('ann', 40)).toBe(true);
  expect(blocks.wasBlockedSince('ann', 80)).toBe(true);
  expect(blocks.wasBlockedSince('ann', 81)).toBe(false);
  blocks.set('bob', { since: 50 });
  expect(blocks.wasBlockedSince('bob', 1_000)).toBe(true);
  expect(blocks.removeExpired(1_079)).toBe(2);
  expect(blocks.removeExpired(1_080)).toBe(1);
  expect(blocks.wasBlockedSince('ann', 40)).toBe(false);
});

test('blocked forwards are one set, which is another object only when it changes', () => {
  const { clock, blocks } = blocksAt(100);
  const none = blocks.forwards;
  blocks.set('ann', { since: 100 });
  expect(blocks.update()).toBe(Number.POSITIVE_INFINITY);
  expect(blocks.forwards).toBe(none);
  blocks.set('forward:crm', { since: 100, until: 300 });
  blocks.set('forward:wiki', { since: 100, until: 200 });
  expect(blocks.update()).toBe(200);
  expect([...blocks.forwards]).toEqual(['crm', 'wiki']);
  const both = blocks.forwards;
  expect(blocks.update()).toBe(200);
  expect(blocks.forwards).toBe(both);
  clock.now = 200;
  expect(blocks.update()).toBe(300);
  expect([...blocks.forwards]).toEqual(['crm']);
});

test('ids of forwards have a prefix', () => {
  expect(blockedForward('forward:crm')).toBe('crm');
  expect(blockedForward('keys/crm')).toBeUndefined();
});
