import { execFile } from 'node:child_process';
import type { TargetLogger } from '../telemetry/log.ts';

/** Time for one notification. */
const NOTIFY_MS = 10_000;

/**
 * Reports the state of the service to systemd: `READY=1`, `STOPPING=1` and, if the unit has a watchdog, `WATCHDOG=1` at half
 * of its interval for as long as the event loop runs. Does nothing unless systemd waits for it (`NOTIFY_SOCKET`).
 */
export class Systemd {
  readonly #socket: string | undefined;
  readonly #watchdogMs: number | undefined;
  readonly #path: string | undefined;
  readonly #log: TargetLogger;
  #isBusy = false;

  constructor({ NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID, PATH }: NodeJS.ProcessEnv, log: TargetLogger) {
    this.#socket = NOTIFY_SOCKET;
    this.#path = PATH;
    this.#log = log;
    // The parent, if an older Node.js has started this one (packages/cli/bin).
    const isOurs = [undefined, '', String(process.pid), String(process.ppid)].includes(WATCHDOG_PID);
    const milliseconds = Number(WATCHDOG_USEC) / 1000;
    this.#watchdogMs = isOurs && milliseconds > 0 ? milliseconds / 2 : undefined;
  }

  /** The service accepts requests. */
  ready(): void {
    this.#notify('READY=1');
    if (!this.#socket || this.#watchdogMs === undefined) return;
    setInterval(() => this.#isBusy || this.#notify('WATCHDOG=1'), this.#watchdogMs).unref();
  }

  /** The service drains. `WATCHDOG=1` is sent until the process ends. */
  stopping(): void {
    this.#notify('STOPPING=1');
  }

  /** Sent by a program, because Node.js has no datagram sockets of the Unix family. */
  #notify(message: string): void {
    if (!this.#socket) return;
    this.#isBusy = true;
    const env = { PATH: this.#path, NOTIFY_SOCKET: this.#socket };
    execFile('systemd-notify', [message], { env, timeout: NOTIFY_MS }, (error) => {
      this.#isBusy = false;
      if (error) this.#log.warn('systemd-notify failed', { message, error: error.message });
    });
  }
}
