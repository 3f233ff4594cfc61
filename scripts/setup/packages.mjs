// Installs packages of the lock file with npm. A set contains the smaller ones, and is added to them without a change of their
// files, so that a running service is not disturbed.
import { spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { isatty } from 'node:tty';
import { nodeBinary } from '../../packages/cli/bin/node.mjs';
import { ROOT, SetupError } from './machine.mjs';
import { npmSettings, registryProblem } from './registry.mjs';

/** @typedef {'serve' | 'console' | 'all'} SetName */

/**
 * Sets of packages, smallest first. `packages` and `megabytes` include those of the smaller sets; `seconds` is the time on two
 * slow cores, with packages from a registry nearby; `last` is a package that only this and the larger sets have.
 * @type {Readonly<Record<SetName, {
 *   purpose: string, packages: number, megabytes: number, seconds: number, last: string, options: readonly string[]
 * }>>}
 */
export const SETS = {
  serve: {
    purpose: 'serving',
    packages: 154,
    megabytes: 425,
    seconds: 20,
    last: 'commander',
    options: ['--workspace=packages/cli', '--omit=dev', '--ignore-scripts'],
  },
  console: {
    purpose: 'building the web console',
    packages: 408,
    megabytes: 615,
    seconds: 25,
    last: 'vite',
    options: ['--workspace=packages/admin', '--include=dev', '--ignore-scripts'],
  },
  all: {
    purpose: 'development and tests',
    packages: 757,
    megabytes: 1240,
    seconds: 50,
    last: 'vitest',
    options: ['--include=dev'],
  },
};

const MODULES = join(ROOT, 'node_modules');
/** Written by npm at the end of an installation. */
const INSTALLED = join(MODULES, '.package-lock.json');
/** Exists while packages are installed, with the id of npm's process. It is outside of `node_modules`, which npm may empty. */
const RUNNING = join(ROOT, '.installing');
const WAIT_MS = 200;
const PROGRESS_MS = 250;

/** @param {string} path */
const modified = (path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

/**
 * Returns whether a set is installed as the lock file requires.
 * @param {SetName} name
 */
export function isInstalled(name) {
  return !existsSync(RUNNING) && isComplete() && existsSync(join(MODULES, SETS[name].last)) && linkNode();
}

/** Whether the last installation ended, and is newer than the lock file. */
function isComplete() {
  return modified(INSTALLED) >= modified(join(ROOT, 'package-lock.json'));
}

/**
 * Installs a set. An installation of another process is awaited; an interrupted one is replaced. Throws `SetupError`.
 * @param {SetName} name
 * @param {{ isBackground?: boolean }} [options]
 */
export async function installPackages(name, { isBackground = false } = {}) {
  await waitForOthers();
  if (isInstalled(name)) return;
  // Packages may be half extracted, which npm would not notice.
  const wasInterrupted = existsSync(RUNNING);
  const isAddition = !wasInterrupted && isComplete() && existsSync(join(MODULES, SETS.serve.last));
  if (wasInterrupted) console.error('the last installation was interrupted; starting again');
  const { purpose, packages, megabytes, seconds, options } = SETS[name];
  const settings = npmSettings(process.env, ROOT);
  const problem = settings.isOffline ? undefined : await registryProblem(settings);
  if (problem) console.error(`${problem}: using the packages in npm's cache`);
  console.error(`installing what ${purpose} needs: ${packages} packages, ${megabytes} MB, about ${seconds} s ...`);
  const started = Date.now();
  const npm = runNpm([
    ...(isAddition ? ['install', '--no-save'] : ['ci']),
    ...options,
    '--include=optional',
    ...(problem || settings.isOffline ? ['--offline'] : ['--prefer-offline']),
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
  ]);
  const stopReporting = reportProgress(packages, started, isBackground);
  const { code, output } = await npm;
  stopReporting();
  if (code !== 0) {
    // What it has written so far is replaced next time.
    throw new SetupError(`npm could not install the packages:\n${output.trimEnd()}\n${remedy(output, problem)}`);
  }
  linkNode();
  rmSync(RUNNING, { force: true });
  console.error(`installed in ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

/** Waits while another process installs packages. */
async function waitForOthers() {
  let reported = false;
  for (;;) {
    const pid = runningInstallation();
    if (pid === undefined) return;
    if (!reported) console.error(`waiting for process ${pid}, which installs packages here ...`);
    reported = true;
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
  }
}

/** Id of the process that installs packages; undefined if there is none, or it has been killed. */
function runningInstallation() {
  try {
    const pid = Number(readFileSync(RUNNING, 'utf8'));
    process.kill(pid, 0);
    // Another process may have this id by now.
    return existsSync('/proc/self') && !readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('npm') ? undefined : pid;
  } catch {
    return undefined;
  }
}

/**
 * @param {readonly string[]} args
 * @returns {Promise<{ code: number | null, output: string }>}
 */
function runNpm(args) {
  const script = process.env.npm_execpath ?? '';
  const [program, first] = basename(script) === 'npm-cli.js' ? [process.execPath, [script]] : ['npm', []];
  return new Promise((resolve, reject) => {
    const child = spawn(program, [...first, ...args], {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'pipe'],
      // The packages of the console's design system report installations.
      env: { ...process.env, IBM_TELEMETRY_DISABLED: 'true' },
    });
    writeFileSync(RUNNING, String(child.pid ?? ''));
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output += text;
      });
    }
    child.on('error', (error) => {
      reject(
        new SetupError(`npm cannot be started (${error.message}): install npm 11, which Node.js usually includes`),
      );
    });
    child.on('close', (code) => resolve({ code, output }));
  });
}

/** What to do about the errors of npm. */
const REMEDIES = [
  {
    pattern: /ENOTCACHED/,
    text: 'npm has no copy of this package: connect to the registry, set HTTPS_PROXY or npm_config_registry, or install a bundle (npm run pack -- --bundle on a machine with a registry)',
  },
  {
    pattern: /SELF_SIGNED|UNABLE_TO_(?:GET_ISSUER|VERIFY)|CERT_/,
    text: 'a proxy replaces certificates here: npm config set cafile FILE with the certificate of its authority, in PEM format',
  },
  {
    pattern: /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH/,
    text: 'the npm registry cannot be reached: check the network, HTTPS_PROXY, and npm config get registry',
  },
  { pattern: /\bE40[13]\b/, text: 'the registry rejects these credentials: log in with npm login, or check .npmrc' },
  { pattern: /ENOSPC/, text: 'the disk is full: make room and try again' },
  { pattern: /EACCES|EPERM/, text: `check who owns ${ROOT} and npm's cache (npm config get cache)` },
];

/**
 * @param {string} output
 * @param {string | undefined} problem of the registry
 */
function remedy(output, problem) {
  const { text } = REMEDIES.find(({ pattern }) => pattern.test(output)) ?? { text: 'try again' };
  return problem ? `${problem}; ${text}` : text;
}

/**
 * Shows on a terminal how many packages there are, in one line; not in the background, where others write lines too.
 * @param {number} packages
 * @param {number} started epoch milliseconds
 * @param {boolean} isBackground
 */
function reportProgress(packages, started, isBackground) {
  if (isBackground || !isatty(2)) return () => {};
  const timer = setInterval(() => {
    const seconds = Math.round((Date.now() - started) / 1000);
    process.stderr.write(`\r\x1b[2K  ${Math.min(countPackages(), packages)} of ${packages} packages, ${seconds} s`);
  }, PROGRESS_MS);
  return () => {
    clearInterval(timer);
    process.stderr.write('\r\x1b[2K');
  };
}

/** Number of packages whose files have been written, without those inside of others. */
function countPackages() {
  /** @param {string} path */
  const names = (path) => {
    try {
      return readdirSync(path).filter((name) => !name.startsWith('.'));
    } catch {
      return [];
    }
  };
  return names(MODULES)
    .flatMap((name) => (name.startsWith('@') ? names(join(MODULES, name)).map((each) => join(name, each)) : [name]))
    .filter((name) => existsSync(join(MODULES, name, 'package.json'))).length;
}

/** Makes `node_modules/.bin/node` the installed Node.js, so that npm scripts run on it: npm 10 does not. Returns true. */
function linkNode() {
  const link = join(MODULES, '.bin', 'node');
  const node = nodeBinary(MODULES);
  if (node !== undefined && !existsSync(link)) {
    mkdirSync(dirname(link), { recursive: true });
    rmSync(link, { force: true });
    symlinkSync(relative(dirname(link), node), link);
  }
  return true;
}
