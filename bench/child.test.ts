import { spawn } from 'node:child_process';
import { expect, it, onTestFinished } from 'vitest';
import { cpuSeconds, treeCpuSeconds } from './child.ts';

it.runIf(process.platform === 'linux')('the CPU time of a process includes that of its descendants', async () => {
  const { pid } = spawn('sh', ['-c', '(while :; do :; done) & wait'], { detached: true, stdio: 'ignore' });
  if (pid === undefined) throw new Error('sh did not start');
  onTestFinished(() => void process.kill(-pid, 'SIGKILL'));
  await expect.poll(() => treeCpuSeconds(pid)).toBeGreaterThan(0.1);
  expect(cpuSeconds(pid)).toBeLessThan(0.1);
});
