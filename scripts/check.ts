import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';

/**
 * `npm run check`: the checks that run no code of the project, beside each other. Prints what each has said as soon as it
 * ends, and ends with code 1 when one of them has found something.
 */
const CHECKS: readonly (readonly [string, ...string[]])[] = [
  // With several threads it does much of the work several times.
  ['tsc', '--noEmit', '--singleThreaded', '--incremental', '--tsBuildInfoFile', 'node_modules/.cache/tsc.tsbuildinfo'],
  ['biome', 'ci', '--error-on-warnings'],
  ['knip'],
];

const passed = await Promise.all(
  CHECKS.map(async ([command, ...args]) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    const ended = Promise.withResolvers<number | null>();
    child.once('error', ended.reject).once('close', ended.resolve);
    const [code, out, err] = await Promise.all([ended.promise, text(child.stdout), text(child.stderr)]);
    console.log(`${command}: ${code === 0 ? 'passed' : 'failed'}`);
    if (out + err !== '') console.log((out + err).trimEnd());
    return code === 0;
  }),
);
if (passed.includes(false)) process.exitCode = 1;
