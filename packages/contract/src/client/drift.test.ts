import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { generateTypes, TYPES_FILE } from './generate.ts';

test('the types of the client are those of the document; `npm run generate` renews them', async () => {
  expect(readFileSync(TYPES_FILE, 'utf8')).toBe(await generateTypes());
});
