import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { oncePerInterrupt, ReconnectDelay } from '@sluice/protocol/timing';
import type { TargetLogger } from '../telemetry/log.ts';

/** A process that has run for longer is started again without delay. */
const STABLE_MS = 60_000;
/** Longest time between the end of a process and the start of its successor. */
const MAX_DELAY_MS = 5_000;

/**
 * Runs this program several times, as replicas on the same ports (SERVICE_PROCESSES), and starts each again that ends. Resolves
 * with the exit code after SIGTERM or SIGINT, or when a process cannot start.
 */
export class ProcessSupervisor {
  readonly #log: TargetLogger;
  readonly #running = new Set<ChildProcess>();
  readonly #ended = Promise.withResolvers<number>();
  #isStopping = false;
  /** Whether a process has been ready. */
  #hasStarted = false;

  constructor(log: TargetLogger) {
    this.#log = log;
  }

  async run(count: number): Promise<number> {
    const stop = () => this.#stop();
    // The last one: the process that supervises this one has gone.
    process.on('SIGTERM', stop).on('SIGINT', oncePerInterrupt(stop)).on('disconnect', stop);
    const kept = Array.from({ length: count }, (_, at) => this.#keepRunning(at + 1));
    await Promise.race([this.#ended.promise, Promise.all(kept)]);
    const code = await this.#ended.promise;
    await Promise.all(kept);
    return code;
  }

  async #keepRunning(number: number): Promise<void> {
    const delays = new ReconnectDelay({ firstMs: 250, maxMs: MAX_DELAY_MS });
    while (!this.#isStopping) {
      const startedAt = performance.now();
      const code = await this.#runOnce(number);
      if (this.#isStopping) return;
      // None could start: the next ones would not either.
      if (!this.#hasStarted) return this.#stop(code === 0 ? 1 : code);
      if (performance.now() - startedAt >= STABLE_MS) delays.reset();
      this.#log.error('process exited; restarting', { process: number, code });
      await new Promise((resolve) => setTimeout(resolve, delays.next()));
    }
  }

  /** Resolves with the exit code. */
  async #runOnce(number: number): Promise<number> {
    const env = { ...process.env, SERVICE_PROCESS: String(number) };
    // The channel tells a process when this one has gone.
    const child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
      env,
      stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    });
    this.#running.add(child);
    // It is ready.
    child.once('message', () => {
      if (!this.#hasStarted) process.send?.('ready');
      this.#hasStarted = true;
    });
    const [code] = await once(child, 'exit');
    this.#running.delete(child);
    return typeof code === 'number' ? code : 1;
  }

  /** Stops all processes; a second call kills them. */
  #stop(code = 0): void {
    const signal = this.#isStopping ? 'SIGKILL' : 'SIGTERM';
    this.#isStopping = true;
    for (const child of this.#running) child.kill(signal);
    this.#ended.resolve(code);
  }
}
