import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { componentChecksum } from './action.ts';

const MIB = 1024 * 1024;

it.each([0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 5])('is SHA-256 of %i bytes', async (length) => {
  const bytes = Buffer.alloc(length, 'component');
  expect(await componentChecksum(bytes)).toBe(createHash('sha256').update(bytes).digest('hex'));
});

it('of a large component lets others go on meanwhile', async () => {
  const order: string[] = [];
  const large = componentChecksum(new Uint8Array(4 * MIB)).then(() => order.push('checksum'));
  setImmediate(() => order.push('other'));
  await large;
  expect(order).toEqual(['other', 'checksum']);
});
