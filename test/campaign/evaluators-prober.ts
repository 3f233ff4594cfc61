import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { MODERN } from '../fixtures/raw-client.ts';

/** Results of a prober. */
export interface Probed {
  /** Milliseconds of each `tools/list`. */
  readonly times: readonly number[];
  /** One line per request without a list of tools as response. */
  readonly failures: readonly string[];
}

/** Pause between two requests, and timeout of a response, in milliseconds. */
const INTERVAL_MS = 5;
const TIMEOUT_MS = 10_000;

/** Lists the tools of a namespace in a loop, in its own thread, so that nothing else delays it. */
export class Prober {
  readonly #worker: Worker;
  readonly #results: Promise<Probed>;

  constructor(url: string) {
    this.#worker = new Worker(new URL(import.meta.url), { workerData: { url } });
    this.#results = new Promise((resolve, reject) => {
      this.#worker.once('message', resolve);
      this.#worker.once('error', reject);
    });
    this.#results.catch(() => undefined);
  }

  /** Stops the loop and returns its results. */
  async stop(): Promise<Probed> {
    this.#worker.postMessage('stop');
    const results = await this.#results;
    await this.#worker.terminate();
    return results;
  }
}

async function probe(url: string, stopped: () => boolean): Promise<Probed> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const times: number[] = [];
  const failures: string[] = [];
  for (; !stopped(); await delay(INTERVAL_MS)) {
    const start = performance.now();
    const body = await list(url, agent).catch((error: unknown) => String(error));
    times.push(performance.now() - start);
    if (!body.includes('"tools":[{"') && failures.length < 20) failures.push(`tools/list: ${body.slice(0, 300)}`);
  }
  agent.destroy();
  return { times, failures };
}

function list(url: string, agent: Agent): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': MODERN,
    'mcp-method': 'tools/list',
  };
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/clientInfo': { name: 'prober', version: '1' },
  };
  const outgoing = request(url, { method: 'POST', agent, headers, timeout: TIMEOUT_MS }, (response) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.once('end', () => resolve(Buffer.concat(chunks).toString()));
    response.once('error', reject);
  });
  outgoing.once('timeout', () => outgoing.destroy(new Error(`no response in ${TIMEOUT_MS} ms`)));
  outgoing.once('error', reject);
  outgoing.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta } }));
  return promise;
}

if (!isMainThread && parentPort !== null) {
  const port = parentPort;
  let stopped = false;
  port.once('message', () => {
    stopped = true;
  });
  port.postMessage(await probe(String(workerData.url), () => stopped));
}
