import { expect, test } from 'vitest';
import { requestIds } from './request-ids.ts';

test('ids have ten digits and 32 bits, and no two in use are the same', () => {
  const ids = Array.from({ length: 10_000 }, () => requestIds.next());
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.filter((id) => String(id).length !== 10 || (id | 0) !== id || id <= 0)).toEqual([]);
  for (const id of ids) requestIds.release(id);
});
