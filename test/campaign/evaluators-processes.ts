import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

/** Processes that a gateway has had for its actions. */
export interface ActionProcesses {
  /** All host processes that were seen, and the most main memory that one of them ever had (VmHWM), in bytes. */
  readonly hosts: readonly number[];
  readonly hostPeak: number;
  /** The same of those that compile. */
  readonly compilers: readonly number[];
  readonly compilerPeak: number;
}

const LOOK_MS = 5;
/** A flag that only they have. */
const FLAGS = { host: '--wasm-max-table-size', compiler: '--wasm-max-mem-pages=8192' };
type Kind = keyof typeof FLAGS;

/** Watches a gateway's children in a thread of its own, many times a second: some live for a moment only. */
export class ProcessWatch {
  readonly #worker: Worker;
  readonly #seen: Promise<ActionProcesses>;

  constructor(pid: number) {
    this.#worker = new Worker(new URL(import.meta.url), { workerData: { pid } });
    this.#seen = new Promise((resolve, reject) => {
      this.#worker.once('message', resolve);
      this.#worker.once('error', reject);
    });
    this.#seen.catch(() => undefined);
  }

  /** Stops it; what it has seen. */
  async stop(): Promise<ActionProcesses> {
    this.#worker.postMessage('stop');
    const seen = await this.#seen;
    await this.#worker.terminate();
    return seen;
  }
}

/** Ids of the processes that run or compile actions, of this gateway or of any. */
export function actionProcesses(gateway?: number): number[] {
  const pids = gateway === undefined ? readdirSync('/proc').filter((name) => /^\d+$/.test(name)) : childrenOf(gateway);
  return pids.map(Number).filter((pid) => kindOf(pid) !== undefined);
}

function childrenOf(pid: number): string[] {
  return read(`/proc/${pid}/task/${pid}/children`)
    .split(' ')
    .filter((child) => child !== '');
}

/** Of a process that has only been forked yet, the command is the gateway's. */
function kindOf(pid: number): Kind | undefined {
  const command = read(`/proc/${pid}/cmdline`);
  if (command.includes(FLAGS.host)) return 'host';
  return command.includes(FLAGS.compiler) ? 'compiler' : undefined;
}

/** Empty when it has gone. */
function read(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}

async function watch(gateway: number, stopped: () => boolean): Promise<ActionProcesses> {
  const kinds = new Map<number, Kind>();
  const peaks = { host: 0, compiler: 0 };
  for (; !stopped(); await delay(LOOK_MS)) {
    for (const child of childrenOf(gateway).map(Number)) {
      const kind = kinds.get(child) ?? kindOf(child);
      if (kind === undefined) continue;
      kinds.set(child, kind);
      const [, peak = '0'] = /^VmHWM:\s+(\d+) kB/m.exec(read(`/proc/${child}/status`)) ?? [];
      peaks[kind] = Math.max(peaks[kind], Number(peak) * 1024);
    }
  }
  const all = (wanted: Kind) => [...kinds].filter(([, kind]) => kind === wanted).map(([pid]) => pid);
  return { hosts: all('host'), hostPeak: peaks.host, compilers: all('compiler'), compilerPeak: peaks.compiler };
}

if (!isMainThread && parentPort !== null) {
  const port = parentPort;
  let stopped = false;
  port.once('message', () => {
    stopped = true;
  });
  port.postMessage(await watch(Number(workerData.pid), () => stopped));
}
