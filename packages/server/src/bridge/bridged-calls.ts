import type { CallUnderWay } from '../forwards/call-under-way.ts';
import type { CallsUnderWay } from '../forwards/calls-under-way.ts';
import type { Caller } from '../forwards/relay.ts';
import { within } from '../forwards/within.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { BridgedCall, type BridgedClient, type BridgedWork } from './bridged-call.ts';

/** What services get to hear that calls of theirs were ended, in milliseconds. */
const LAST_WORDS_MS = 1_000;

/**
 * The calls to capability services that are under way, each until its work is over: also those whose client has left, so
 * that none is forgotten when the process stops (decisions 1.1, 6).
 */
export class BridgedCalls {
  readonly #calls: CallsUnderWay<CallUnderWay>;
  readonly #log: TargetLogger;
  readonly #running = new Map<BridgedCall, Promise<void>>();

  /** `calls` watches how long they take, and finds those that are cancelled. */
  constructor(calls: CallsUnderWay<CallUnderWay>, log: TargetLogger) {
    this.#calls = calls;
    this.#log = log;
  }

  /** How many there are. */
  get size(): number {
    return this.#running.size;
  }

  /** Begins one. */
  begin(caller: Caller, client: BridgedClient, work: BridgedWork): void {
    const call = new BridgedCall(caller, client, work, this.#calls, this.#log);
    this.#running.set(
      call,
      call.run().finally(() => this.#running.delete(call)),
    );
  }

  /** Calls under way get so long to finish; what is left then is ended, at the service as well. */
  async close(graceMs = 0): Promise<void> {
    await within(Math.max(graceMs, 0), Promise.all(this.#running.values()));
    for (const call of this.#running.keys()) call.stop();
    await within(LAST_WORDS_MS, Promise.all(this.#running.values()));
  }
}
