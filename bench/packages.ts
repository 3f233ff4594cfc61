import { spawnSync } from 'node:child_process';
import { existsSync, rmSync, writeFileSync } from 'node:fs';

/** Which of the yardsticks' programs are there. */
export interface Programs {
  readonly nginx: boolean;
  readonly wrk: boolean;
}

const policy = '/usr/sbin/policy-rc.d';
const packageTool = 'apt-get';

/**
 * Looks for nginx and wrk and, as root on a Debian system, installs the missing ones from its packages.
 *
 * @param say told in one line what is missing and stays left out
 */
export function findPrograms(say: (line: string) => void): Programs {
  const missing = ['nginx', 'wrk'].filter((name) => !present(name));
  if (missing.length > 0 && process.getuid?.() === 0 && present(packageTool)) install(missing);
  for (const name of missing.filter((name) => !present(name))) {
    const left = name === 'wrk' ? 'all requests per CPU-second' : 'the rows and ratios of nginx';
    say(`${name} is not installed (${packageTool} install ${name}): left out ${left}`);
  }
  return { nginx: present('nginx'), wrk: present('wrk') };
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
  // Debian starts a freshly installed nginx as a service on port 80; this file forbids it, and goes again.
  const forbid = !existsSync(policy);
  if (forbid) writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
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
    if (forbid) rmSync(policy, { force: true });
  }
}
