// `npm start`: installs what serving needs and runs the service. On a checkout without a current web console, the packages for
// building it are installed and it is built once the service is ready, while `/admin/` shows the remaining time. Not for
// `npm start -- --headless`, or with SERVICE_UI_PATH. Runs on the machine's Node.js.
import { spawn } from 'node:child_process';
import { setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import { setUp } from './setup.mjs';

/** Lets the service and its clients have the processor first. */
const BUILD_PRIORITY = 10;

const args = process.argv.slice(2).filter((flag) => flag !== '--offline');
// Like `npm start --offline`, for npm.
if (process.argv.includes('--offline')) process.env.npm_config_offline = 'true';

await setUp('serve');
// These need a newer Node.js than `setUp`, which rejects older ones.
const { nodeBinary, NEEDED, runInPlace } = await import('../packages/cli/bin/node.mjs');
const { nodeFlags } = await import('../packages/server/src/app/node-flags.mjs');
const { buildsConsole, expectConsole } = await import('./admin.mjs');

/** @param {string} path */
const file = (path) => fileURLToPath(new URL(path, import.meta.url));
const isCurrent = Number(process.versions.node.split('.')[0]) >= NEEDED;
const node = isCurrent ? process.execPath : nodeBinary(file('../node_modules'));
if (node === undefined) throw new Error(`no Node.js ${NEEDED} in node_modules`);

const printsOnly = ['-h', '--help', '-v', '--version'].some((flag) => args.includes(flag));
const builds = !printsOnly && !args.includes('--headless') && !process.env.SERVICE_UI_PATH && buildsConsole();
if (builds) expectConsole();
const service = runInPlace(node, [...nodeFlags(process.env), file('../packages/server/src/main.ts'), ...args], {
  stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  // The compiled code of the last start halves the time of this one.
  env: { NODE_COMPILE_CACHE: file('../node_modules/.cache/sluice'), ...process.env },
});
// It is ready.
if (builds) service.once('message', buildConsole);

function buildConsole() {
  const build = spawn(process.execPath, [file('admin.mjs'), '--background'], {
    stdio: ['ignore', 2, 2],
    // A process group of its own, to end npm and Vite with it.
    detached: true,
  });
  const { pid } = build;
  if (pid === undefined) return;
  setPriority(pid, BUILD_PRIORITY);
  let isRunning = true;
  build.on('exit', () => {
    isRunning = false;
  });
  process.on('exit', () => {
    if (isRunning) process.kill(-pid);
  });
}
