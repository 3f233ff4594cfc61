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
/** What a process may take to start, to answer and to stop. */
const PATIENCE_MS = 30_000;

/** A listener as a file names it. */
export interface NamedListener {
  readonly name: string;
  readonly secure: boolean;
}

/** How a start ended: the service ran and all its listeners answered, or it refused; else what was wrong. */
export type Started = 'ran' | 'refused' | { readonly wrong: string };

/** The folder with the certificate that the files name. */
export async function certificateFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'cert.pem'), localhostCertificate.cert);
  await writeFile(join(folder, 'key.pem'), localhostCertificate.key);
}

/**
 * Starts the service with a pipeline file. When it listens, it has to have just these listeners, each has to answer a
 * request, and it has to stop in good order; when it does not, it has to have ended with code 1 and one line.
 */
export async function startWith(text: string, folder: string, listeners: readonly NamedListener[]): Promise<Started> {
  const file = join(folder, 'mutant.yaml');
  await writeFile(file, text);
  const child = spawn(process.execPath, [MAIN, '--pipeline-config', file], {
    cwd: folder,
    env: { ...ENVIRONMENT, HOME: folder, SERVICE_PERSIST_BACKEND: 'none', SERVICE_MGMT_LISTEN: '127.0.0.1:0' },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const late = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
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
    if (!addresses) return refusal((await closed)[0], lines);
    const wrong = await answers(addresses, listeners);
    child.kill('SIGTERM');
    const [code] = await closed;
    if (wrong !== undefined) return { wrong };
    return code === 0 ? 'ran' : { wrong: `it ended with ${code} when it was stopped: ${lines.at(-1)}` };
  } finally {
    clearTimeout(late);
    child.kill('SIGKILL');
    await closed;
  }
}

/** What it is bound to, by name, of the line that says so. */
function addressesIn(line: string): ReadonlyMap<string, string> | undefined {
  if (!line.startsWith('{')) return undefined;
  const { ts, level, target, msg, ...addresses }: Record<string, unknown> = JSON.parse(line);
  if (msg !== 'listening') return undefined;
  return new Map(Object.entries(addresses).map(([name, address]) => [name, String(address)]));
}

function refusal(code: unknown, lines: readonly string[]): Started {
  // What it warned of before is logged.
  const said = lines.filter((line) => !line.startsWith('{'));
  if (code === 1 && said.length === 1 && said[0]?.startsWith('sluice: --pipeline-config ')) return 'refused';
  return { wrong: `it ended with ${code} and ${JSON.stringify(lines)}` };
}

/** What is not as it should be; undefined when all is. */
async function answers(
  addresses: ReadonlyMap<string, string>,
  listeners: readonly NamedListener[],
): Promise<string | undefined> {
  const names = [...addresses.keys()].filter((name) => name !== 'management').toSorted();
  const wanted = listeners.map(({ name }) => name).toSorted();
  if (names.join('\n') !== wanted.join('\n')) return `it listens as ${names}, not as ${wanted}`;
  for (const listener of listeners) {
    for (const [method, path] of [
      ['GET', '/up'],
      ['OPTIONS', '/default/mcp'],
      ['POST', '/default/mcp'],
    ] as const) {
      const status = await ask(String(addresses.get(listener.name)), listener.secure, method, path).catch(String);
      if (typeof status === 'string') return `${listener.name} does not answer ${method} ${path}: ${status}`;
    }
  }
  return undefined;
}

async function ask(address: string, tls: boolean, method: string, path: string): Promise<number> {
  const port = address.split(':').at(-1);
  const [, host = ''] = /^\[?(.*?)\]?:\d+$/.exec(address) ?? [];
  const to = { host: host === '0.0.0.0' ? '127.0.0.1' : host, port, method, path, agent: false, timeout: 10_000 };
  const headers = { host: 'localhost' };
  const request = tls ? secure({ ...to, headers, rejectUnauthorized: false }) : plain({ ...to, headers });
  request.once('timeout', () => request.destroy(new Error('nothing comes')));
  request.end(method === 'POST' ? '{"jsonrpc":"2.0","id":1,"method":"ping"}' : undefined);
  const [response] = await once(request, 'response');
  response.resume();
  await once(response, 'close');
  return Number(response.statusCode);
}
