import { spawnSync } from 'node:child_process';
import { existsSync, rmSync, writeFileSync } from 'node:fs';

const policy = '/usr/sbin/policy-rc.d';
const packageTool = 'apt-get';

/**
 * Looks for nginx and wrk and, as root on Debian, installs missing ones.
 *
 * @param log called for each missing program: parts that need it fail
 */
export function installPrograms(log: (line: string) => void): void {
  const missing = ['nginx', 'wrk'].filter((name) => !present(name));
  if (missing.length > 0 && process.getuid?.() === 0 && present(packageTool)) install(missing);
  for (const name of missing.filter((name) => !present(name))) {
    log(`${name} is not installed (${packageTool} install ${name})`);
  }
}

const present = (name: string) =>
  [
    '/usr/sbin',
    '/usr/bin',
    '/sbin',
    '/bin',
    '/usr/local/sbin',
    '/usr/local/bin',
    ...(process.env.PATH ?? '').split(':'),
  ]
    .map((folder) => `${folder}/${name}`)
    .some((path) => existsSync(path));

function install(names: readonly string[]): void {
  // This file keeps Debian from starting nginx as a service on port 80.
  const createPolicy = !existsSync(policy);
  if (createPolicy) writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  try {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    const apt = (...args: string[]) =>
      spawnSync(packageTool, ['-qq', ...args], { stdio: ['ignore', 'ignore', 2], env });
    const installed = () => apt('install', '-y', '--no-install-recommends', ...names).status === 0;
    if (!installed()) {
      apt('update');
      installed();
    }
  } finally {
    if (createPolicy) rmSync(policy, { force: true });
  }
}
