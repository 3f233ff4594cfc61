import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { at, parseJson } from './caller.ts';
import type { PacedPlan } from './latency.ts';
import { callMessage } from './messages.ts';

it('a server that stalls delays all calls that are due meanwhile', async () => {
  let requests = 0;
  const server = createServer((req, res) => {
    req.resume();
    // The first call only opens the connection.
    setTimeout(() => res.end('{"result":{}}'), ++requests === 2 ? 600 : 0);
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const folder = mkdtempSync(join(tmpdir(), 'paced-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));

  const url = `http://127.0.0.1:${at(server.address(), 'port')}/`;
  const load = { connections: 1, perSecond: 100, seconds: 1, answerBytes: 10 };
  const plan: PacedPlan = { url, message: callMessage('modern'), ...load };
  writeFileSync(join(folder, 'plan.json'), JSON.stringify(plan));
  const args = [join(import.meta.dirname, 'paced-caller.ts'), join(folder, 'plan.json')];
  const { stdout } = await promisify(execFile)(process.execPath, args);

  // Calls made only after the previous response would be fewer, and only one of them slow.
  expect(at(parseJson(stdout), 'calls')).toBeGreaterThan(80);
  expect(at(parseJson(stdout), 'p50Ms')).toBeGreaterThan(50);
});
