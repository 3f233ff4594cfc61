// Checks of the machine before anything is installed. Runs on any Node.js since 16.

import * as fs from 'node:fs';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Root of the repository. */
export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

const IMAGE = 'the container image (docs/deployment.md)';
const OLDEST_NODE = 20;
const OLDEST_NPM = 10;
/** Node.js that runs the service. */
const SERVICE_NODE = 26;
/** Platforms for which npm has that Node.js. */
const PLATFORMS = ['linux-x64', 'linux-arm64', 'darwin-arm64'];

/** Why nothing can be installed, and what to do. */
export class SetupError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = 'SetupError';
  }
}

/** @param {string} version */
const majorOf = (version) => Number(version.split('.')[0]);

/**
 * Throws {@link SetupError} for a Node.js that is too old.
 * @param {string} version
 */
export function checkNode(version) {
  if (majorOf(version) >= OLDEST_NODE) return;
  throw new SetupError(
    `needs Node.js ${OLDEST_NODE} or later, this is v${version}: install Node.js 24 (https://nodejs.org), or use ${IMAGE}`,
  );
}

/**
 * What the checks read of the machine.
 * @typedef {object} Machine
 * @property {string} platform
 * @property {string} arch
 * @property {string} node version
 * @property {() => boolean} isMusl
 * @property {string | undefined} npmUserAgent of the package manager that runs this script
 * @property {() => number} freeBytes on the disk of the repository
 */

/** Bytes that a set of packages takes on disk, and npm's cache of it. */
const DISK_BYTES = { serve: 650e6, console: 350e6, all: 1_900e6 };

/**
 * Throws {@link SetupError} for a machine on which the packages cannot be installed or would not run.
 * @param {'serve' | 'console' | 'all'} name
 * @param {Machine} machine
 */
export function checkMachine(name, machine = thisMachine()) {
  const { platform, arch, node, npmUserAgent } = machine;
  if (platform === 'win32') throw new SetupError(`does not run on Windows: use WSL 2 (wsl --install), or ${IMAGE}`);
  if (platform === 'linux' && machine.isMusl()) {
    throw new SetupError(
      `needs the GNU C library, and this system has musl (Alpine Linux): use ${IMAGE}, or Debian, Ubuntu, Fedora or similar`,
    );
  }
  if (!PLATFORMS.includes(`${platform}-${arch}`) && majorOf(node) < SERVICE_NODE) {
    throw new SetupError(
      `needs Node.js ${SERVICE_NODE}, which npm does not have for ${platform}-${arch}; this is v${node}: install ` +
        `Node.js ${SERVICE_NODE} yourself (https://nodejs.org), or use ${IMAGE}`,
    );
  }
  const npm = /^npm\/(\S+)/.exec(npmUserAgent || '');
  if (npm?.[1] && majorOf(npm[1]) < OLDEST_NPM) {
    throw new SetupError(`needs npm ${OLDEST_NPM} or later, this is ${npm[1]}: run npm install --global npm@11`);
  }
  const free = machine.freeBytes();
  if (free < DISK_BYTES[name]) {
    const megabytes = (/** @type {number} */ bytes) => `${Math.floor(bytes / 1e6)} MB`;
    throw new SetupError(
      `needs ${megabytes(DISK_BYTES[name])} of disk space, and ${ROOT} has ${megabytes(free)} left: make room, ` +
        'or move the repository to a larger disk',
    );
  }
}

/** @returns {Machine} */
function thisMachine() {
  return {
    platform: process.platform,
    arch: process.arch,
    node: process.versions.node,
    isMusl,
    npmUserAgent: process.env.npm_config_user_agent,
    freeBytes,
  };
}

/** The loader of musl has a fixed place. On other systems it may be there as well, beside that of the GNU C library. */
function isMusl() {
  const arch = process.arch === 'x64' ? 'x86_64' : 'aarch64';
  if (!existsSync(`/lib/ld-musl-${arch}.so.1`)) return false;
  const { header } = /** @type {{ header: { glibcVersionRuntime?: string } }} */ (
    /** @type {unknown} */ (process.report.getReport())
  );
  return header.glibcVersionRuntime === undefined;
}

function freeBytes() {
  // Absent from some old versions, and not allowed on some file systems.
  try {
    const { bavail, bsize } = fs.statfsSync(ROOT);
    return bavail * bsize;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
