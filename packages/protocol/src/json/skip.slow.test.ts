import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { compileKernel, KERNEL_FILE } from '../../scripts/generate.ts';

test('skip.wasm is compiled from assembly/skip.ts; `npm run generate` renews it', async () => {
  const compiled = await compileKernel();
  expect(Buffer.compare(compiled, readFileSync(KERNEL_FILE))).toBe(0);
});
