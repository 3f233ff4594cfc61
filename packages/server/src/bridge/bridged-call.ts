import type { CallAnswer } from '../answer/call-answer.ts';
import type { RpcError } from '../answer/rpc-error.ts';
import type { CallUnderWay } from '../forwards/call-under-way.ts';
import type { CallsUnderWay } from '../forwards/calls-under-way.ts';
import type { Caller } from '../forwards/relay.ts';
import { readsJson, readsStreams } from '../mcp/accept.ts';
import { INTERNAL_ERROR } from '../mcp/protocol.ts';

/** What a call to a capability service came to: a JSON-RPC result, as JSON text, or an error. */
export type BridgedAnswer =
  | { readonly kind: 'result'; readonly json: string }
  | { readonly kind: 'error'; readonly error: RpcError };

/** Carries the call out. The signal says when nobody waits for the answer any more. */
export type BridgedWork = (signal: AbortSignal, client: CallAnswer) => Promise<BridgedAnswer>;

/**
 * One client's request on its way to a capability service, whatever the service does for it. It ends there when its
 * client leaves or cancels it, when it takes longer than any call may, or when the process stops.
 */
export class BridgedCall implements CallUnderWay {
  readonly startedAt: number;
  activeAt: number;
  slot = -1;
  lasting = false;
  readonly #caller: Caller;
  readonly #client: CallAnswer;
  readonly #calls: CallsUnderWay<CallUnderWay>;
  readonly #onLeft: (() => void) | undefined;
  readonly #ending = new AbortController();
  #over = false;

  /** `onLeft` is called when the client has left, whether the call ends with that or goes on. */
  constructor(caller: Caller, client: CallAnswer, calls: CallsUnderWay<CallUnderWay>, onLeft?: () => void) {
    this.#onLeft = onLeft;
    this.#caller = caller;
    this.#client = client;
    this.#calls = calls;
    this.startedAt = calls.now();
    this.activeAt = this.startedAt;
  }

  /** Runs the work and answers with what it came to; never rejects. */
  async run(work: BridgedWork): Promise<void> {
    this.#client.onLeave(() => {
      this.#onLeft?.();
      // A legacy client that leaves has not cancelled: it says so when it does (mcp 1).
      if (this.#caller.era === 'modern' && !this.#over) this.#end('the client left');
    });
    this.#calls.watch(this);
    let answer: BridgedAnswer;
    try {
      answer = await work(this.#ending.signal, this.#client);
    } catch {
      answer = failure('internal error');
    }
    if (this.#over) return;
    this.#settle();
    if (answer.kind === 'error') this.#client.error(answer.error);
    else {
      const text = `{"jsonrpc":"2.0","id":${this.#client.idText},"result":${answer.json}}`;
      this.#client.response(text, false, 200, readsJson(this.#caller.headers.accept));
    }
  }

  isFor(session: string, idText: string): boolean {
    return this.#caller.session?.id === session && this.#client.idText === idText;
  }

  cancel(): void {
    if (this.#over) return;
    this.#end('the client cancelled the call');
    this.#client.cancelled(readsStreams(this.#caller.headers.accept));
  }

  onLasting(): void {
    // Nothing is sent before there is something to say.
  }

  onDeadline(limit: 'silence' | 'total'): void {
    if (this.#over) return;
    if (limit === 'silence') {
      // Calls to services have deadlines of their own, and a slow client is no silence of theirs.
      this.activeAt = this.#calls.now();
      this.#calls.watch(this);
      return;
    }
    this.#endWith('the call took longer than any call may');
  }

  /** The process does not wait for it any longer. */
  stop(): void {
    if (!this.#over) this.#endWith('the service was stopped');
  }

  #endWith(message: string): void {
    this.#end(message);
    this.#client.error({ code: INTERNAL_ERROR, message });
  }

  #end(why: string): void {
    this.#settle();
    this.#ending.abort(new Error(why));
  }

  #settle(): void {
    this.#over = true;
    this.#calls.unwatch(this);
  }
}

/** Why nobody waits for a call any more, in a sentence; `signal` is what its work was given. */
export function whyEnded({ reason }: AbortSignal): string {
  return reason instanceof Error ? reason.message : String(reason);
}

/** An answer of ours to a call that failed. */
export function failure(message: string): BridgedAnswer {
  return { kind: 'error', error: { code: INTERNAL_ERROR, message } };
}
