import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const SLUICE = fileURLToPath(new URL('../bin/sluice.mjs', import.meta.url));

/** Prints the modules that a process loads, one per line, to stderr. */
const PRINT_MODULES = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module';
  registerHooks({ load(url, context, next) { process.stderr.write(url + '\\n'); return next(url, context); } });
`)}`;

it('a command that lists entries loads its own group only, and no schemas', async () => {
  const home = await mkdtemp(join(tmpdir(), 'sluice-startup-'));
  const service = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json').end('{"data":[],"error":null}');
  }).listen(0, '127.0.0.1');
  await once(service, 'listening');
  const { port } = service.address() as AddressInfo;
  const argv = ['--import', PRINT_MODULES, SLUICE, 'tools', 'list', '--host', `http://127.0.0.1:${port}`];
  const { stderr } = await promisify(execFile)(process.execPath, argv, { env: { HOME: home } }).finally(async () => {
    service.close();
    await rm(home, { recursive: true });
  });
  const modules = stderr.split('\n').filter((line) => line.startsWith('file:'));
  expect(modules.filter((url) => url.endsWith('/groups/tools.ts'))).toHaveLength(1);
  expect(modules.filter((url) => /\/(?:zod|yaml|diff|string-width|undici)\/|groups\/forwards\.ts/.test(url))).toEqual(
    [],
  );
  expect(modules.length).toBeLessThan(80);
});
