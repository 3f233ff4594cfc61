import type { Outcome } from '../answer/outcome.ts';
import { type CallUnderWay, CLIENT_CANCELLED, CLIENT_LEFT } from '../forwards/call-under-way.ts';
import type { CallsUnderWay } from '../forwards/calls-under-way.ts';
import { readsStreams } from '../mcp/accept.ts';
import type { RequestContext } from '../pipeline/context.ts';

/**
 * A request that evaluators judge. As long as they do, its client can take it back as it can a call that is carried out
 * (mcp 1, 4): by a cancellation in the legacy era, by leaving in the modern one. Then nothing of it is passed on.
 */
export class JudgedRequest implements CallUnderWay {
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

  /** What the judgement comes to, or at once the answer of a request that was taken back. */
  async outcome(judgement: Promise<Outcome | undefined>): Promise<Outcome | undefined> {
    const { client, era } = this.#context;
    this.#calls.watch(this);
    if (era === 'modern') client?.on('close', () => this.#end(CLIENT_LEFT));
    try {
      return await Promise.race([this.#ended.promise, judgement]);
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

  /** There is no stream yet that its client could come back to: whether it will be one is not known. */
  onLasting(): void {}

  /** Whatever judges it has deadlines of its own. */
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
