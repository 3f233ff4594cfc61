import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect, it, onTestFinished } from 'vitest';
import { startMeasuredService } from './fixtures/measured-service.ts';
import { findPromtool } from './fixtures/promtool.ts';

const promtool = findPromtool();

it.runIf(promtool !== undefined)('promtool approves /metrics of a service that had traffic', async () => {
  const measured = await startMeasuredService();
  onTestFinished(measured.close);
  await measured.serveTraffic();
  const child = spawn(promtool ?? '', ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] });
  child.stdin.end(await measured.exposition());
  const [said, complained, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  expect({ said, complained, code }).toEqual({ said: '', complained: '', code: 0 });
});
