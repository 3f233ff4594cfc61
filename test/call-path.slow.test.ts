import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { it } from 'vitest';

it('the functions and types on the path of a call are within the limits of "npm run shape -- --call"', async () => {
  await promisify(execFile)(process.execPath, [join(import.meta.dirname, '../scripts/shape.ts'), '--call']);
});
