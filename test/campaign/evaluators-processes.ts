import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

/** Processes that a gateway started for its actions. */
export interface ActionProcesses {
  /** Process ids of all observed host processes, and the highest peak RSS (VmHWM) of one, in bytes. */
  readonly hosts: readonly number[];
  readonly hostPeak: number;
  /** The same for compiler processes. */
  readonly compilers: readonly number[];
  readonly compilerPeak: number;
}

const INTERVAL_MS = 5;
/** A flag that only these processes have. */
const FLAGS = { host: '--wasm-max-table-size', compiler: '--wasm-max-mem-pages=8192' };
type Kind = keyof typeof FLAGS;

/** Samples a gateway's child processes in its own thread, many times a second: some are short-lived. */
export class ProcessWatch {
  readonly #worker: Worker;
  readonly #results: Promise<ActionProcesses>;

  constructor(pid: number) {
    this.#worker = new Worker(new URL(import.meta.url), { workerData: { pid } });
    this.#results = new Promise((resolve, reject) => {
      this.#worker.once('message', resolve);
      this.#worker.once('error', reject);
    });
    this.#results.catch(() => undefined);
  }

  /** Stops sampling and returns the results. */
  async stop(): Promise<ActionProcesses> {
    this.#worker.postMessage('stop');
    const results = await this.#results;
    await this.#worker.terminate();
    return results;
  }
}

/** Ids of the processes that run or compile actions, of one gateway or of all. */
export function actionProcesses(gateway?: number): number[] {
  const pids = gateway === undefined ? readdirSync('/proc').filter((name) => /^\d+$/.test(name)) : childrenOf(gateway);
  return pids.map(Number).filter((pid) => kindOf(pid) !== undefined);
}

function childrenOf(pid: number): string[] {
  return read(`/proc/${pid}/task/${pid}/children`)
    .split(' ')
    .filter((child) => child !== '');
}

/** Undefined for a process that was forked but has not called exec: its command is the gateway's. */
function kindOf(pid: number): Kind | undefined {
  const command = read(`/proc/${pid}/cmdline`);
  if (command.includes(FLAGS.host)) return 'host';
  return command.includes(FLAGS.compiler) ? 'compiler' : undefined;
}

/** Empty if the process has exited. */
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
  for (; !stopped(); await delay(INTERVAL_MS)) {
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
