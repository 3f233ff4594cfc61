import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect, it, onTestFinished } from 'vitest';
import { startMeasuredService } from './fixtures/measured-service.ts';
import { findPromtool } from './fixtures/promtool.ts';

const promtool = findPromtool();

it.runIf(promtool !== undefined)('promtool accepts /metrics of a service after traffic', async () => {
  const measured = await startMeasuredService();
  onTestFinished(measured.close);
  await measured.serveTraffic();
  const child = spawn(promtool ?? '', ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] });
  child.stdin.end(await measured.exposition());
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  expect({ stdout, stderr, code }).toEqual({ stdout: '', stderr: '', code: 0 });
});
