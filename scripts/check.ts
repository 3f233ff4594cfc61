import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';

/** `npm run check`: runs all checks in parallel, prints the output of each one, and exits with 1 if one failed. */
const CHECKS: readonly (readonly [string, ...string[]])[] = [
  // Several threads would repeat much of the work.
  ['tsc', '--noEmit', '--singleThreaded', '--incremental', '--tsBuildInfoFile', 'node_modules/.cache/tsc.tsbuildinfo'],
  [
    'tsc',
    '-p',
    'packages/admin',
    '--singleThreaded',
    '--incremental',
    '--tsBuildInfoFile',
    'node_modules/.cache/admin.tsbuildinfo',
  ],
  ['biome', 'ci', '--error-on-warnings'],
  ['knip'],
  ['node', 'scripts/shape.ts', '--check'],
  ['node', 'scripts/restricted.ts'],
];

const passed = await Promise.all(
  CHECKS.map(async ([command, ...args]) => {
    const name = command === 'node' ? args[0] : command;
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    const ended = Promise.withResolvers<number | null>();
    child.once('error', ended.reject).once('close', ended.resolve);
    const [code, out, err] = await Promise.all([ended.promise, text(child.stdout), text(child.stderr)]);
    console.log(`${name}: ${code === 0 ? 'passed' : 'failed'}`);
    if (out + err !== '' && (code !== 0 || command !== 'node')) console.log((out + err).trimEnd());
    return code === 0;
  }),
);
if (passed.includes(false)) process.exitCode = 1;
