import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { DebianPrograms } from '../fixtures/debian-packages.ts';
import { freePort } from '../fixtures/free-port.ts';
import { type Program, startProgram } from '../login/program.ts';

/** The name that the configurations serve. */
export const PUBLIC_NAME = 'sluice.example.com';

const FOLDER = join(import.meta.dirname, '../../deploy/reverse-proxies');

/** A reverse proxy with a configuration in `deploy/reverse-proxies`. */
export interface ReverseProxy {
  readonly name: string;
  /** The Debian package, and where it installs the program. */
  readonly package: string;
  readonly program: string;
  /** Name of the configuration in `deploy/reverse-proxies`. */
  readonly file: string;
  /** Writes what the configuration needs around it into a folder; returns the arguments of the program. */
  readonly prepare: (text: string, setting: Setting) => Promise<readonly string[]>;
}

interface Setting {
  readonly folder: string;
  readonly port: number;
}

/** The reverse proxies whose configurations are tried. */
export const REVERSE_PROXIES: readonly ReverseProxy[] = [
  {
    name: 'nginx',
    package: 'nginx',
    program: '/usr/sbin/nginx',
    file: 'nginx.conf',
    async prepare(text, { folder, port }) {
      await writeFile(join(folder, 'sluice.conf'), text.replaceAll('listen 443', `listen 127.0.0.1:${port}`));
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
        (kind) => `${kind}_temp_path ${folder}/${kind};`,
      );
      const main = [
        `daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr;`,
        'events {}',
        `http { access_log off; ${temporary.join(' ')} include ${folder}/sluice.conf; }`,
      ];
      await writeFile(join(folder, 'nginx.conf'), main.join('\n'));
      return ['-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf')];
    },
  },
  {
    name: 'Caddy',
    package: 'caddy',
    program: '/usr/bin/caddy',
    file: 'Caddyfile',
    async prepare(text, { folder, port }) {
      const options = `{\n\tadmin off\n\thttp_port ${await freePort()}\n\thttps_port ${port}\n}\n`;
      await writeFile(join(folder, 'Caddyfile'), options + text);
      return ['run', '--config', join(folder, 'Caddyfile'), '--adapter', 'caddyfile'];
    },
  },
  {
    name: 'HAProxy',
    package: 'haproxy',
    program: '/usr/sbin/haproxy',
    file: 'haproxy.cfg',
    async prepare(text, { folder, port }) {
      const path = join(folder, 'haproxy.cfg');
      await writeFile(path, text.replace('bind :443', `bind 127.0.0.1:${port}`));
      return ['-db', '-f', path];
    },
  },
];

/** Their Debian packages. */
export const reverseProxyPrograms: readonly DebianPrograms[] = REVERSE_PROXIES.map(({ name, program, ...proxy }) => ({
  packages: [proxy.package],
  skipped: `the test of ${name} in front of Sluice`,
  find: () => (existsSync(program) ? program : undefined),
}));

/** A certificate for {@link PUBLIC_NAME} in a folder, as the configurations expect it. */
export async function createCertificate(folder: string): Promise<string> {
  const [cert, key] = [join(folder, 'fullchain.pem'), join(folder, 'privkey.pem')];
  const names = `subjectAltName=DNS:${PUBLIC_NAME}`;
  const subject = ['-subj', `/CN=${PUBLIC_NAME}`, '-addext', names, '-days', '2'];
  const keyOptions = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  await promisify(execFile)('openssl', ['req', '-x509', ...keyOptions, ...subject, '-keyout', key, '-out', cert]);
  const pem = await readFile(cert, 'utf8');
  await writeFile(join(folder, 'sluice.pem'), pem + (await readFile(key, 'utf8')));
  // Some of the programs give up the rights of root.
  for (const name of ['fullchain.pem', 'privkey.pem', 'sluice.pem']) await chmod(join(folder, name), 0o644);
  return pem;
}

/** Addresses in place of those of the configurations. */
export interface ProxyTargets {
  readonly folder: string;
  /** Base addresses of the listeners. */
  readonly mcp: string;
  readonly management: string;
  /** Whether the proxy accepts requests at this port. */
  readonly isReady: (port: number) => Promise<boolean>;
}

/** Starts a reverse proxy with its configuration, in which only addresses and paths are replaced. */
export async function startReverseProxy(
  proxy: ReverseProxy,
  { folder, mcp, management, isReady }: ProxyTargets,
): Promise<{ readonly program: Program; readonly port: number }> {
  const port = await freePort();
  const replaced = [
    ['sluice:8081', new URL(mcp).host],
    ['sluice:8080', new URL(management).host],
    ['/etc/ssl/sluice', folder],
    ['/etc/haproxy/sluice.pem', join(folder, 'sluice.pem')],
  ] as const;
  const text = replaced.reduce(
    (so, [from, to]) => so.replaceAll(from, to),
    await readFile(join(FOLDER, proxy.file), 'utf8'),
  );
  const program = await startProgram({
    command: proxy.program,
    args: await proxy.prepare(text, { folder, port }),
    env: { PATH: process.env.PATH ?? '', HOME: folder },
    cwd: folder,
    ready: () => isReady(port),
    deadlineMs: 30_000,
  });
  return { program, port };
}
