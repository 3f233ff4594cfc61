import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { MODERN } from '../fixtures/raw-client.ts';

/** Latencies of two requests that others send meanwhile, in milliseconds. */
export interface Latencies {
  readonly list: readonly number[];
  readonly health: readonly number[];
  /** Requests without a response within ten seconds, or with another status than 200. */
  readonly failures: number;
}

/** Pause between two requests, and timeout of a response, in milliseconds. */
const INTERVAL_MS = 5;
const TIMEOUT_MS = 10_000;

/** Sends `tools/list` and `GET /healthz` in a loop, in a thread of its own. */
export class LatencyProbe {
  readonly #worker: Worker;

  /** Addresses of an MCP endpoint, and of a listener with `/healthz`. */
  constructor(mcp: string, health: string) {
    this.#worker = new Worker(new URL(import.meta.url), { workerData: { mcp, health } });
  }

  /** Returns the latencies since the last call. */
  async take(): Promise<Latencies> {
    const taken = once(this.#worker, 'message');
    this.#worker.postMessage('take');
    const [latencies] = await taken;
    return latencies;
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}

const LIST = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/list',
  params: {
    _meta: {
      'io.modelcontextprotocol/protocolVersion': MODERN,
      'io.modelcontextprotocol/clientCapabilities': {},
      'io.modelcontextprotocol/clientInfo': { name: 'prober', version: '1' },
    },
  },
});
const HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  'mcp-protocol-version': MODERN,
  'mcp-method': 'tools/list',
};

if (!isMainThread && parentPort !== null) {
  const port = parentPort;
  const { mcp, health } = Object(workerData);
  let taken: { list: number[]; health: number[]; failures: number } = { list: [], health: [], failures: 0 };
  port.on('message', () => {
    port.postMessage(taken);
    taken = { list: [], health: [], failures: 0 };
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  for (;;) {
    for (const [kind, url, method] of [
      ['list', mcp, 'POST'],
      ['health', health, 'GET'],
    ] as const) {
      const start = performance.now();
      const status = await statusOf(String(url), method, agent).catch(() => 0);
      taken[kind].push(performance.now() - start);
      if (status !== 200) taken.failures++;
      await delay(INTERVAL_MS);
    }
  }
}

function statusOf(url: string, method: 'POST' | 'GET', agent: Agent): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const outgoing = request(url, { method, agent, timeout: TIMEOUT_MS, ...(method === 'POST' && { headers: HEADERS }) });
  outgoing.once('response', (response) => {
    response.resume();
    response.once('end', () => resolve(response.statusCode ?? 0));
    response.once('error', reject);
  });
  outgoing.once('timeout', () => outgoing.destroy(new Error(`no response in ${TIMEOUT_MS} ms`)));
  outgoing.once('error', reject);
  outgoing.end(method === 'POST' ? LIST : undefined);
  return promise;
}
