import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { unitTests } from './unit-tests.ts';

/** Source of a test, of what it imports, and whether it is a unit test. */
const TESTS: readonly (readonly [what: string, test: string, imported: string, isUnit: boolean])[] = [
  ['imports nothing', '', '', true],
  ['imports a module without processes', "import './imported.ts';", "import { join } from 'node:path';", true],
  ['starts a process', "import { spawn } from 'node:child_process';", '', false],
  ['starts a process later', "const { spawn } = await import('node:child_process');", '', false],
  ['imports what starts processes', "import './imported.ts';", "import { fork } from 'node:child_process';", false],
  ['imports it in several lines', "import {\n  one,\n} from './imported.ts';", "export * from 'node:cluster';", false],
  ['imports it later', "await import('./imported.ts');", "import pg from 'pg';", false],
  ['imports only its types', "import type { One } from './imported.ts';", "import 'x';\nimport pg from 'pg';", true],
  ['imports only types of processes', "import type { ChildProcess } from 'node:child_process';", '', true],
  ['imports the service', "import { startService } from '@sluice/server';", '', false],
  ['imports another package', "import { isObject } from '@sluice/protocol/json/parse';", '', true],
];

it.each(TESTS)('a test that %s', async (_what, test, imported, isUnit) => {
  const root = await mkdtemp(join(tmpdir(), 'unit-tests-'));
  onTestFinished(() => rm(root, { recursive: true }));
  await mkdir(join(root, 'packages/a/src'), { recursive: true });
  await writeFile(join(root, 'packages/a/src/imported.ts'), `${imported}\n`);
  await writeFile(join(root, 'packages/a/src/a.test.ts'), `${test}\n`);
  expect(unitTests(root, 'packages/*/src/**/*.test.ts')).toEqual(isUnit ? ['packages/a/src/a.test.ts'] : []);
});
