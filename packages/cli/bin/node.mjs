// The Node.js that npm installs with Sluice. Runs on Node.js 20.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { join } from 'node:path';

/** Version that everything but these two files needs. */
export const NEEDED = 26;

/**
 * Finds the binary in a folder `node_modules`. Its link in `.bin` is not used: npm 10 does not make it.
 * @param {string} modules
 * @returns {string | undefined}
 */
export function nodeBinary(modules) {
  const target = `${process.platform}-${process.arch}`;
  return [`node-${target}`, `node-bin-${target}`]
    .map((name) => join(modules, name, 'bin', 'node'))
    .find((path) => existsSync(path));
}

/**
 * Runs a program in place of this process: with its streams, signals and exit code.
 * @param {string} program
 * @param {readonly string[]} args
 * @param {import('node:child_process').SpawnOptions} options
 * @returns {import('node:child_process').ChildProcess}
 */
export function runInPlace(program, args, options) {
  // Loaded here, because a command that runs on a current Node.js does not need it.
  /** @type {typeof import('node:child_process')} */
  const { spawn } = createRequire(import.meta.url)('node:child_process');
  const child = spawn(program, args, options);
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
    process.on(signal, () => child.kill(signal));
  }
  child.on('error', (error) => {
    console.error(`sluice: ${program}: ${error.message}`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => process.exit(signal === null ? (code ?? 1) : 128 + constants.signals[signal]));
  return child;
}
