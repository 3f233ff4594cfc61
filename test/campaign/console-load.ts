import { setTimeout as delay } from 'node:timers/promises';
import { serveParent, startProcess } from '../fixtures/own-process.ts';
import { textResultText, toolList, toolText } from '../fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../fixtures/raw-upstream.ts';

/** Each has two events. */
export const CALLS_PER_SECOND = 500;
/** Interval in which calls are started. */
const BURST_MS = 20;
/** Calls in flight at most: a slow service is not flooded. */
const MAX_IN_FLIGHT = 500;
const TOOLS = Array.from({ length: 40 }, (_, at) => `tool-${at}`);
const RESULT = 'Order 4711 has been shipped and will arrive on the third of the month. '.repeat(6);

/** What clients have done. */
export interface Load {
  /** Calls that were made. */
  readonly calls: number;
  readonly failures: readonly string[];
}

/** An upstream and the clients that call its tools at a constant rate, in a process of their own. */
export interface ConsoleLoad {
  /** Address of the upstream. */
  readonly url: string;
  /** Begins to call the endpoint at this address. */
  start(endpoint: string): Promise<void>;
  /** Waits for the calls in flight. */
  stop(): Promise<Load>;
  close(): Promise<void>;
}

/** Starts the process. */
export async function startConsoleLoad(): Promise<ConsoleLoad> {
  const { ready, request, close } = await startProcess(new URL(import.meta.url), []);
  return {
    url: String(ready),
    start: async (endpoint) => void (await request('start', endpoint)),
    stop: async () => {
      const { calls, failures } = Object(await request('stop'));
      return { calls: Number(calls), failures: Array.from(failures, String) };
    },
    close,
  };
}

/** Clients that call tools at a constant rate until they are stopped. */
class Clients {
  calls = 0;
  readonly failures: string[] = [];
  readonly #running = new Set<Promise<void>>();
  #isStopped = false;

  async run(endpoint: string): Promise<void> {
    const startedAt = performance.now();
    const due = (): number => Math.floor(((performance.now() - startedAt) / 1000) * CALLS_PER_SECOND);
    while (!this.#isStopped) {
      for (const until = due(); this.calls < until && this.#running.size < MAX_IN_FLIGHT; this.calls++) {
        const call = this.#call(endpoint, this.calls).finally(() => this.#running.delete(call));
        this.#running.add(call);
      }
      await delay(BURST_MS);
    }
    const missing = due() - this.calls;
    if (missing > 0.05 * this.calls) this.failures.push(`${missing} calls could not be made in time`);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#running);
  }

  async #call(endpoint: string, id: number): Promise<void> {
    // Every hundredth call is of an unknown tool, and fails.
    const name = id % 100 === 0 ? 'unknown' : TOOLS[id % TOOLS.length];
    try {
      const response = await fetch(endpoint, {
        method: 'POST',
        headers: { accept: 'application/json, text/event-stream', 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: { order: id } } }),
      });
      await response.text();
    } catch (error) {
      if (this.failures.length < 20) this.failures.push(`a call failed: ${String(error)}`);
    }
  }
}

if (import.meta.main) {
  const upstream = await startRawUpstream({
    eras: ['modern'],
    records: false,
    scripts: { 'tools/list': toolList(...TOOLS.map((name) => toolText(name))), 'tools/call': textResultText(RESULT) },
  });
  const clients = new Clients();
  let running: Promise<void> | undefined;
  serveParent(upstream.url, {
    start: (endpoint) => {
      running = clients.run(String(endpoint));
    },
    stop: async () => {
      await clients.stop();
      await running;
      return { calls: clients.calls, failures: clients.failures };
    },
  });
}
