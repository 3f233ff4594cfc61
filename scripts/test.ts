import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, setPriority } from 'node:os';
import { text } from 'node:stream/consumers';

/**
 * `npm test`: runs the fast tests and, beside them, `npm run check`, whose output is printed at the end. Arguments are
 * passed to Vitest. Exits with 1 if a check or a test failed.
 */
const check = spawn(process.execPath, ['scripts/check.ts'], { stdio: ['ignore', 'pipe', 'inherit'] });
// It uses the time in which the tests wait.
if (check.pid !== undefined) setPriority(check.pid, constants.priority.PRIORITY_LOW);
const checked = Promise.all([once(check, 'close'), text(check.stdout)]);

const tests = spawn('vitest', ['run', '--project', '!slow', '--tags-filter', '!slow', ...process.argv.slice(2)], {
  stdio: 'inherit',
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    tests.kill(signal);
    check.kill(signal);
  });
}

const [testCode] = await once(tests, 'close');
const [[checkCode], output] = await checked;
process.stdout.write(output);
if (testCode !== 0 || checkCode !== 0) process.exitCode = 1;
