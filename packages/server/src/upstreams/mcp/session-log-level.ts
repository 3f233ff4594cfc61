import { withTimeout } from '@sluice/protocol/timing';
import type { LegacyClient } from './rpc-client.ts';

/** Longest time for which a request waits until the log level of its session is set, in milliseconds. */
export const LOG_LEVEL_MS = 5_000;

/** The log level of one session with an upstream. */
export class SessionLogLevel {
  readonly #client: LegacyClient | undefined;
  #current: string | undefined = undefined;
  #setting: Promise<void> | undefined = undefined;

  /** `client`: undefined in the modern era, whose requests have their log levels. */
  constructor(client: LegacyClient | undefined) {
    this.#client = client;
  }

  /** Log level last sent to the upstream. */
  get current(): string | undefined {
    return this.#current;
  }

  /** Sets the log level, if the upstream has any; undefined: it stays. Resolves after 5 s at the latest, and never rejects. */
  async set(level: string | undefined): Promise<void> {
    if (level === undefined || this.#client?.serverCapabilities.logging === undefined) return;
    this.#current = level;
    this.#setting ??= this.#send(this.#client);
    await withTimeout(LOG_LEVEL_MS, this.#setting);
    // The next level does not wait for a request without a response.
    this.#setting = undefined;
  }

  /** Sends one request at a time, until the upstream has the latest level. */
  async #send(client: LegacyClient): Promise<void> {
    let sent: string | undefined;
    while (sent !== this.#current) {
      sent = this.#current;
      await client.request('logging/setLevel', { level: sent }).catch(() => undefined);
    }
    this.#setting = undefined;
  }
}
