import { expect, it } from 'vitest';
import { exhaustDescriptors } from './campaign/descriptors.ts';

it('more connections than the process may have open files neither end it nor lose anything', async () => {
  const { failures, requests, refused, peak } = await exhaustDescriptors({ clients: 400, ms: 3_000 });
  expect(failures).toEqual([]);
  expect(peak).toBe(400);
  const kinds = ['list', 'call with an evaluator', 'write', 'completion', 'new evaluators'];
  expect(Object.keys(requests).toSorted()).toEqual(kinds.toSorted());
  // The clients have taken all connections.
  expect((refused[0] ?? 0) + (refused[503] ?? 0)).toBeGreaterThan(0);
});
