import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { MODERN } from '../fixtures/raw-client.ts';

/** What a prober has seen. */
export interface Probed {
  /** Milliseconds that each `tools/list` took. */
  readonly times: readonly number[];
  /** A line for each that was not answered, or not with tools. */
  readonly wrong: readonly string[];
}

/** How long it waits between two requests, and for an answer. */
const PAUSE_MS = 5;
const PATIENCE_MS = 10_000;

/** Lists the tools of a namespace again and again, in a thread of its own, so that nothing else delays it. */
export class Prober {
  readonly #worker: Worker;
  readonly #seen: Promise<Probed>;

  constructor(url: string) {
    this.#worker = new Worker(new URL(import.meta.url), { workerData: { url } });
    this.#seen = new Promise((resolve, reject) => {
      this.#worker.once('message', resolve);
      this.#worker.once('error', reject);
    });
    this.#seen.catch(() => undefined);
  }

  /** Stops it; what it has seen. */
  async stop(): Promise<Probed> {
    this.#worker.postMessage('stop');
    const seen = await this.#seen;
    await this.#worker.terminate();
    return seen;
  }
}

async function probe(url: string, stopped: () => boolean): Promise<Probed> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const times: number[] = [];
  const wrong: string[] = [];
  for (; !stopped(); await delay(PAUSE_MS)) {
    const began = performance.now();
    const answer = await list(url, agent).catch((error: unknown) => String(error));
    times.push(performance.now() - began);
    if (!answer.includes('"tools":[{"') && wrong.length < 20) wrong.push(`tools/list: ${answer.slice(0, 300)}`);
  }
  agent.destroy();
  return { times, wrong };
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
  const sent = request(url, { method: 'POST', agent, headers, timeout: PATIENCE_MS }, (answer) => {
    const pieces: Buffer[] = [];
    answer.on('data', (piece: Buffer) => pieces.push(piece));
    answer.once('end', () => resolve(Buffer.concat(pieces).toString()));
    answer.once('error', reject);
  });
  sent.once('timeout', () => sent.destroy(new Error(`no answer in ${PATIENCE_MS} ms`)));
  sent.once('error', reject);
  sent.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta } }));
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
