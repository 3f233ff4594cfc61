import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { generateShapes, generateTypes, SHAPES_FILE, TYPES_FILE } from '../../scripts/generate.ts';

test('the client types match the OpenAPI document (otherwise run `npm run generate`)', async () => {
  expect(readFileSync(TYPES_FILE, 'utf8')).toBe(await generateTypes());
});

test('so do the shapes of responses', () => {
  expect(readFileSync(SHAPES_FILE, 'utf8')).toBe(generateShapes());
});
