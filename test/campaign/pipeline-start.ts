import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { request as plain } from 'node:http';
import { request as secure } from 'node:https';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { localhostCertificate } from '../../packages/server/src/http/client/certificate.fixture.ts';
import { ENVIRONMENT } from '../fixtures/environment.ts';

const MAIN = fileURLToPath(new URL('../../packages/server/src/main.ts', import.meta.url));
/** Timeout for start, requests and stop of a process, in milliseconds. */
const TIMEOUT_MS = 30_000;

/** An expected listener. */
export interface ExpectedListener {
  readonly name: string;
  readonly secure: boolean;
}

/** Result of a start: the service ran and all its listeners responded, it rejected the file, or it did something wrong. */
export type StartResult = 'ran' | 'rejected' | { readonly failure: string };

/** Creates a folder with the certificate that the files name. */
export async function createCertificateFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'cert.pem'), localhostCertificate.cert);
  await writeFile(join(folder, 'key.pem'), localhostCertificate.key);
}

/**
 * Starts the service with a pipeline file. If it listens, it must have exactly these listeners, each must respond to
 * requests, and it must stop with code 0. Otherwise it must exit with code 1 and a one-line error.
 */
export async function startWith(
  text: string,
  folder: string,
  listeners: readonly ExpectedListener[],
): Promise<StartResult> {
  const file = join(folder, 'mutant.yaml');
  await writeFile(file, text);
  const child = spawn(process.execPath, [MAIN, '--pipeline-config', file], {
    cwd: folder,
    env: { ...ENVIRONMENT, HOME: folder, SERVICE_PERSIST_BACKEND: 'none', SERVICE_MGMT_LISTEN: '127.0.0.1:0' },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), TIMEOUT_MS);
  const closed = once(child, 'close');
  const lines: string[] = [];
  const bound = Promise.withResolvers<ReadonlyMap<string, string> | undefined>();
  createInterface({ input: child.stderr })
    .on('line', (line) => {
      lines.push(line);
      const addresses = addressesIn(line);
      if (addresses) bound.resolve(addresses);
    })
    .once('close', () => bound.resolve(undefined));
  try {
    const addresses = await bound.promise;
    if (!addresses) return rejection((await closed)[0], lines);
    const failure = await checkListeners(addresses, listeners);
    child.kill('SIGTERM');
    const [code] = await closed;
    if (failure !== undefined) return { failure };
    return code === 0 ? 'ran' : { failure: `exit code ${code} after SIGTERM: ${lines.at(-1)}` };
  } finally {
    clearTimeout(timer);
    child.kill('SIGKILL');
    await closed;
  }
}

/** Returns the bound addresses by listener name, if this is the log line `listening`. */
function addressesIn(line: string): ReadonlyMap<string, string> | undefined {
  if (!line.startsWith('{')) return undefined;
  const { ts, level, target, msg, ...addresses }: Record<string, unknown> = JSON.parse(line);
  if (msg !== 'listening') return undefined;
  return new Map(Object.entries(addresses).map(([name, address]) => [name, String(address)]));
}

function rejection(code: unknown, lines: readonly string[]): StartResult {
  // Warnings before it are log lines.
  const errors = lines.filter((line) => !line.startsWith('{'));
  if (code === 1 && errors.length === 1 && errors[0]?.startsWith('sluice: --pipeline-config ')) return 'rejected';
  return { failure: `exit code ${code} with ${JSON.stringify(lines)}` };
}

/** Returns the first deviation; undefined if all listeners are as expected. */
async function checkListeners(
  addresses: ReadonlyMap<string, string>,
  listeners: readonly ExpectedListener[],
): Promise<string | undefined> {
  const names = [...addresses.keys()].filter((name) => name !== 'management').toSorted();
  const expected = listeners.map(({ name }) => name).toSorted();
  if (names.join('\n') !== expected.join('\n')) return `listeners: ${names}; expected: ${expected}`;
  for (const listener of listeners) {
    for (const [method, path] of [
      ['GET', '/up'],
      ['OPTIONS', '/default/mcp'],
      ['POST', '/default/mcp'],
    ] as const) {
      const status = await send(String(addresses.get(listener.name)), listener.secure, method, path).catch(String);
      if (typeof status === 'string') return `${listener.name} did not respond to ${method} ${path}: ${status}`;
    }
  }
  return undefined;
}

async function send(address: string, tls: boolean, method: string, path: string): Promise<number> {
  const port = address.split(':').at(-1);
  const [, host = ''] = /^\[?(.*?)\]?:\d+$/.exec(address) ?? [];
  const to = { host: host === '0.0.0.0' ? '127.0.0.1' : host, port, method, path, agent: false, timeout: 10_000 };
  const headers = { host: 'localhost' };
  const request = tls ? secure({ ...to, headers, rejectUnauthorized: false }) : plain({ ...to, headers });
  request.once('timeout', () => request.destroy(new Error('no response in 10 s')));
  request.end(method === 'POST' ? '{"jsonrpc":"2.0","id":1,"method":"ping"}' : undefined);
  const [response] = await once(request, 'response');
  response.resume();
  await once(response, 'close');
  return Number(response.statusCode);
}
