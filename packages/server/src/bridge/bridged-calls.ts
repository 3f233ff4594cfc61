import type { CallAnswer } from '../answer/call-answer.ts';
import type { CallUnderWay } from '../forwards/call-under-way.ts';
import type { CallsUnderWay } from '../forwards/calls-under-way.ts';
import type { Caller } from '../forwards/relay.ts';
import { within } from '../forwards/within.ts';
import { BridgedCall, type BridgedWork } from './bridged-call.ts';

/** What calls that were ended get to tell so, in milliseconds. */
const MIN_CLOSE_MS = 1_000;

/**
 * The calls to capability services that are under way, each until all is told of it: also those whose client has left, so
 * that none is forgotten when the process stops (decisions 1.1, 6).
 */
export class BridgedCalls {
  readonly #calls: CallsUnderWay<CallUnderWay>;
  readonly #running = new Map<BridgedCall, Promise<void>>();

  /** `calls` watches how long they take, and finds those that are cancelled. */
  constructor(calls: CallsUnderWay<CallUnderWay>) {
    this.#calls = calls;
  }

  /** How many there are. */
  get size(): number {
    return this.#running.size;
  }

  /** Begins one; `onLeft` is called when its client has left, whether the call ends with that or goes on. */
  begin(caller: Caller, client: CallAnswer, work: BridgedWork, onLeft?: () => void): void {
    const call = new BridgedCall(caller, client, this.#calls, onLeft);
    this.#running.set(
      call,
      call.run(work).finally(() => this.#running.delete(call)),
    );
  }

  /** Calls under way get so long to finish; what is left then is ended, at the service as well. */
  async close(graceMs = 0): Promise<void> {
    await within(Math.max(graceMs, 0), Promise.all(this.#running.values()));
    for (const call of this.#running.keys()) call.stop();
    await within(MIN_CLOSE_MS, Promise.all(this.#running.values()));
  }
}
