import { existsSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Balancer } from '../fixtures/balancer.ts';
import { type DebianPrograms, installDebianPackages } from '../fixtures/debian-packages.ts';
import { freePort } from '../fixtures/free-port.ts';
import { send } from '../fixtures/raw-client.ts';
import { type Program, startProgram } from '../login/program.ts';

const PGBOUNCER = '/usr/sbin/pgbouncer';
const HAPROXY = '/usr/sbin/haproxy';
const START_MS = 30_000;

const programs: DebianPrograms = {
  packages: ['pgbouncer', 'haproxy'],
  skipped: 'replicas behind HAProxy, with pgbouncer before PostgreSQL',
  find: () => ([PGBOUNCER, HAPROXY].every((path) => existsSync(path)) ? PGBOUNCER : undefined),
};

/** Installs pgbouncer and HAProxy, if permitted; whether they are there. */
export async function hasPrograms(): Promise<boolean> {
  await installDebianPackages([programs]);
  return programs.find() !== undefined;
}

/** A running program that listens on a port. */
interface Listening extends AsyncDisposable {
  readonly port: number;
}

/** Starts pgbouncer in transaction mode before PostgreSQL at this port. */
export async function startPgbouncer(postgres: number): Promise<Listening> {
  return await start(PGBOUNCER, async (folder, port) => {
    const path = join(folder, 'pgbouncer.ini');
    const lines = [
      '[databases]',
      `* = host=127.0.0.1 port=${postgres} user=postgres`,
      '[pgbouncer]',
      `listen_addr = 127.0.0.1\nlisten_port = ${port}\nunix_socket_dir =`,
      'auth_type = any\npool_mode = transaction\nignore_startup_parameters = extra_float_digits',
      // A crash of PostgreSQL is over soon.
      'default_pool_size = 10\nmax_client_conn = 200\nserver_login_retry = 1',
    ];
    await writeFile(path, `${lines.join('\n')}\n`);
    // It refuses to run as root.
    return process.getuid?.() === 0 ? ['-u', 'nobody', path] : [path];
  });
}

/** Starts HAProxy before replicas, `host:port`, whose readiness it checks at `health` (`host:port` each, in the same order). */
export async function startHaproxy(replicas: readonly string[], health: readonly string[]): Promise<Balancer> {
  const { port, ...haproxy } = await start(HAPROXY, async (folder, port) => {
    const path = join(folder, 'haproxy.cfg');
    const servers = replicas.map((address, at) => {
      const [host, checked] = health[at]?.split(':') ?? [];
      return `  server replica${at} ${address} check addr ${host} port ${checked} inter 200ms fall 1 rise 1`;
    });
    const lines = [
      'defaults',
      '  mode http\n  timeout connect 2s\n  timeout client 60s\n  timeout server 60s',
      // Requests go to another replica only while none has received them.
      '  option redispatch 1\n  retries 3\n  retry-on conn-failure\n  option httpchk',
      '  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host localhost',
      `frontend clients\n  bind 127.0.0.1:${port}\n  default_backend replicas`,
      'backend replicas\n  balance roundrobin\n  http-reuse always',
      ...servers,
    ];
    await writeFile(path, `${lines.join('\n')}\n`);
    return ['-db', '-f', path];
  });
  return { ...haproxy, url: `http://127.0.0.1:${port}`, setBackends: () => undefined };
}

async function start(
  command: string,
  configure: (folder: string, port: number) => Promise<readonly string[]>,
): Promise<Listening> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-program-'));
  await chmod(folder, 0o755);
  const port = await freePort();
  const program: Program = await startProgram({
    command,
    args: await configure(folder, port),
    env: { PATH: process.env.PATH ?? '' },
    ready: () => isListening(port),
    deadlineMs: START_MS,
  });
  return {
    port,
    async [Symbol.asyncDispose]() {
      await program.stop();
      await rm(folder, { recursive: true });
    },
  };
}

/** Whether something accepts connections, whatever it speaks. */
async function isListening(port: number): Promise<boolean> {
  return await send(`http://127.0.0.1:${port}/`, 'GET', {}).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ECONNREFUSED',
  );
}
