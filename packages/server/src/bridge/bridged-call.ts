import { readsJson, readsStreams } from '@sluice/protocol/mcp/era';
import type { CallAnswer } from '../answer/call-answer.ts';
import type { ClientAnswer } from '../answer/client-answer.ts';
import { makeResumable } from '../answer/resumable.ts';
import type { RpcError } from '../answer/rpc-error.ts';
import { type CallUnderWay, CLIENT_CANCELLED, CLIENT_LEFT } from '../forwards/call-under-way.ts';
import type { CallsUnderWay } from '../forwards/calls-under-way.ts';
import type { Caller } from '../forwards/relay.ts';
import type { ServiceEntry } from '../registry/entries.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { logFailure } from './failure-log.ts';
import { ServiceError, toServiceError } from './service-error.ts';

/** What a call to a capability service came to: a JSON-RPC result, as JSON text, or an error. */
export type BridgedAnswer =
  | { readonly kind: 'result'; readonly json: string }
  | { readonly kind: 'error'; readonly error: RpcError };

/** The client's side of such a call. */
export type BridgedClient = CallAnswer & Pick<ClientAnswer, 'callResult'>;

/** What {@link BridgedWork} is given to carry a call out with. */
export interface BridgedSides {
  readonly client: BridgedClient;
  /** The client has left, which need not end the call. */
  readonly left: AbortSignal;
  /** Nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

/** What is done for a call, and whose it is. */
export interface BridgedWork {
  /** The tool or resource that is called. */
  readonly name: string;
  /** Undefined where none is registered. */
  readonly service: ServiceEntry | undefined;
  /** Goes to the service as `x-service-request-id`. */
  readonly requestId: string;
  /** Carries the call out; rejects with what it failed of. */
  carryOut(sides: BridgedSides): Promise<BridgedAnswer>;
  /** Tells that the call failed, and how that is answered. Called once at most. */
  failed(why: ServiceError): BridgedAnswer;
}

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
  readonly #client: BridgedClient;
  readonly #work: BridgedWork;
  readonly #calls: CallsUnderWay<CallUnderWay>;
  readonly #log: TargetLogger;
  readonly #left = new AbortController();
  readonly #ending = new AbortController();
  #over = false;

  constructor(
    caller: Caller,
    client: BridgedClient,
    work: BridgedWork,
    calls: CallsUnderWay<CallUnderWay>,
    log: TargetLogger,
  ) {
    this.#caller = caller;
    this.#client = client;
    this.#work = work;
    this.#calls = calls;
    this.#log = log;
    this.startedAt = calls.now();
    this.activeAt = this.startedAt;
  }

  /** Has the work done and answers with what it came to; never rejects. */
  async run(): Promise<void> {
    this.#client.onLeave(() => this.#clientLeft());
    this.#calls.watch(this);
    const answer = await this.#carriedOut();
    if (this.#over) return;
    this.#settle();
    this.#send(answer);
  }

  isFor(session: string, idText: string): boolean {
    return this.#caller.session?.id === session && this.#client.idText === idText;
  }

  cancel(): void {
    if (this.#over) return;
    this.#end(CLIENT_CANCELLED);
    this.#client.cancelled(readsStreams(this.#caller.headers.accept));
  }

  onLasting(): void {
    const { session, headers } = this.#caller;
    if (!this.#left.signal.aborted) makeResumable(this.#client, session, readsStreams(headers.accept));
  }

  onDeadline(limit: 'silence' | 'total'): void {
    if (this.#over) return;
    if (limit === 'silence') {
      // Calls to services have deadlines of their own, and a slow client is no silence of theirs.
      this.activeAt = this.#calls.now();
      this.#calls.watch(this);
      return;
    }
    this.#send(this.#end(`the call did not finish within ${this.#calls.limits.totalMs / 1000} s`));
  }

  /** The process does not wait for it any longer. */
  stop(): void {
    if (!this.#over) this.#send(this.#end('the service was stopped'));
  }

  async #carriedOut(): Promise<BridgedAnswer | undefined> {
    const { service } = this.#work;
    try {
      return await this.#work.carryOut({
        client: this.#client,
        left: this.#left.signal,
        signal: this.#ending.signal,
      });
    } catch (error) {
      // What was ended fails of that.
      if (this.#over) return undefined;
      logFailure(this.#log, this.#work, error);
      return this.#work.failed(toServiceError(error, service));
    }
  }

  #clientLeft(): void {
    this.#left.abort();
    // A legacy client that leaves has not cancelled: it says so when it does (mcp 1).
    if (this.#caller.era === 'modern' && !this.#over) this.#end(CLIENT_LEFT);
  }

  #send(answer: BridgedAnswer | undefined): void {
    if (answer?.kind === 'error') this.#client.error(answer.error);
    else if (answer) this.#client.callResult(answer.json, readsJson(this.#caller.headers.accept));
  }

  #end(why: string): BridgedAnswer {
    this.#settle();
    const answer = this.#work.failed(new ServiceError('UNKNOWN', why));
    this.#ending.abort();
    return answer;
  }

  #settle(): void {
    this.#over = true;
    this.#calls.unwatch(this);
  }
}
