import { spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * `npm run test:loaded`: runs the fast tests while two busy loops load the processor, to find tests that depend on the
 * speed of the machine. Arguments are passed to Vitest. Exits with its exit code.
 */
const loops = [0, 1].map(() => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }));
try {
  const tests = spawn('vitest', ['run', '--project', '!slow', '--tags-filter', '!slow', ...process.argv.slice(2)], {
    stdio: 'inherit',
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => tests.kill(signal));
  const [code] = await once(tests, 'exit');
  process.exitCode = code ?? 1;
} finally {
  for (const loop of loops) loop.kill('SIGKILL');
}
