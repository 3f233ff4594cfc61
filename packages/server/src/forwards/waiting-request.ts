import { readsStreams } from '@sluice/protocol/mcp/era';
import type { Outcome } from '../answer/outcome.ts';
import type { RequestContext } from '../pipeline/context.ts';
import { type CallUnderWay, CLIENT_CANCELLED, CLIENT_LEFT } from './call-under-way.ts';
import type { CallsUnderWay } from './calls-under-way.ts';

/**
 * A request that waits for something before it is carried out: for evaluators that judge it, or for its upstream to say what
 * it speaks. As long as it does, its client can take it back as it can a call that is carried out (mcp 1, 4): by a
 * cancellation in the legacy era, by leaving in the modern one. Then nothing of it is passed on.
 */
export class WaitingRequest implements CallUnderWay {
  readonly startedAt: number;
  activeAt: number;
  slot = -1;
  lasting = false;
  readonly #context: RequestContext;
  readonly #calls: CallsUnderWay<CallUnderWay>;
  readonly #ending = new AbortController();
  readonly #ended = Promise.withResolvers<Outcome>();

  constructor(context: RequestContext, calls: CallsUnderWay<CallUnderWay>) {
    this.#context = context;
    this.#calls = calls;
    this.startedAt = calls.now();
    this.activeAt = this.startedAt;
  }

  /** Nobody waits for it any more; the reason says why, as a text. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** What it comes to, or at once the answer of a request that was taken back. */
  async outcome(awaited: Promise<Outcome | undefined>): Promise<Outcome | undefined> {
    const { client, era } = this.#context;
    this.#calls.watch(this);
    if (era === 'modern') client?.on('close', () => this.#end(CLIENT_LEFT));
    try {
      return await Promise.race([this.#ended.promise, awaited]);
    } finally {
      this.#calls.unwatch(this);
    }
  }

  isFor(session: string, idText: string): boolean {
    return this.#context.session?.id === session && this.#context.idText === idText;
  }

  cancel(): void {
    this.#end(CLIENT_CANCELLED);
  }

  /** The process does not wait for it any longer. */
  stop(): void {
    this.#end('the service was stopped');
  }

  /** There is no stream yet that its client could come back to: whether it will be one is not known. */
  onLasting(): void {}

  /** What it waits for has deadlines of its own. */
  onDeadline(): void {
    this.activeAt = this.#calls.now();
    this.#calls.watch(this);
  }

  #end(why: string): void {
    const streams = readsStreams(this.#context.headers.accept);
    this.#ended.resolve({ kind: 'stream', start: (client) => client.cancelled(streams) });
    this.#ending.abort(why);
  }
}
