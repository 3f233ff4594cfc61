// Runs before every npm script, on the machine's Node.js (20 or newer): installs the locked dependencies if they are
// missing or older than the lock file. They include Node.js 26, which runs everything else.
import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** @param {string} path */
const modified = (path) => statSync(join(root, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;

if (modified('node_modules/.package-lock.json') < modified('package-lock.json')) {
  console.error('installing dependencies (npm ci) ...');
  const { status } = spawnSync('npm', ['ci', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
    // The packages of the console's design system report installations.
    env: { ...process.env, IBM_TELEMETRY_DISABLED: 'true' },
  });
  if (status !== 0) process.exit(status ?? 1);
}
