import { setImmediate as nextTurn } from 'node:timers/promises';
import { TimeSlicer } from '@sluice/protocol/time-slicer';
import type { Served } from '../identity/active-identity.ts';
import type { Authenticated } from '../identity/authenticator.ts';

/**
 * Whether what was authenticated by this is not accepted any more. `served`: what the listener serves; `namespace`: the one whose
 * endpoint the request was sent to.
 */
export type IsRejected = (by: Authenticated, served: Served, namespace: string | undefined) => boolean;

/** What has admitted requests, or executes them. */
export interface AdmittedSource {
  /** Ends those that are rejected, one or none with each step. */
  revoke(isRejected: IsRejected): Iterator<unknown, unknown, undefined>;
}

/**
 * All requests that have been authenticated and have not ended, and the calls that outlive them. Nothing is stored for that: the
 * connections of the listeners know their requests.
 */
export class AdmittedRequests {
  readonly #servers: AdmittedSource[] = [];
  readonly #calls: AdmittedSource;
  readonly #slicer = new TimeSlicer();

  /** `calls`: all calls in flight. */
  constructor(calls: AdmittedSource) {
    this.#calls = calls;
  }

  /** Adds the requests of a listener. */
  add(server: AdmittedSource): void {
    this.#servers.push(server);
  }

  /**
   * Ends the requests and calls that are rejected, in slices. A request without a response is answered with 401; the connection of
   * another one is closed. Calls are canceled upstream. Requests that are being authenticated must be rejected by the authenticator:
   * call this after the change for which they are.
   */
  async end(isRejected: IsRejected): Promise<void> {
    for (const server of this.#servers) await this.#slicer.run(server.revoke(isRejected));
    // A call that continues after a promise is in no list for some microtasks.
    await nextTurn();
    await this.#slicer.run(this.#calls.revoke(isRejected));
  }
}
