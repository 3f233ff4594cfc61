import { expect, test } from 'vitest';
import { uniqueId } from './unique-id.ts';

test('10,000 ids are UUIDs, and no two are equal', () => {
  const ids = new Set<string>();
  for (let count = 0; count < 10_000; count++) {
    const id = uniqueId();
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    ids.add(id);
  }
  expect(ids.size).toBe(10_000);
});
