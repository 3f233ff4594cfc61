import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import type { TokenSealer } from '@sluice/protocol/seal';
import { rpcError } from '../../../http/outcome.ts';
import { Quota } from '../../../http/quota.ts';
import type { Steps } from '../../../registry/steps.ts';
import type { ClientFacts } from '../../client-facts.ts';
import type { RequestOutcome } from '../../deferred-outcome.ts';
import type { ResponseSink } from '../../response-sink.ts';
import {
  type CallBinding,
  digestOf,
  FOREIGN_STATE,
  hashOf,
  type RequestState,
  RequestStates,
} from './request-state.ts';
import type { SuspendableCall, SuspensionStore } from './suspendable-call.ts';

export interface SuspendedCallsOptions {
  readonly sealer: TokenSealer;
  /** Id of this process, which alone can resume the calls that it stores. */
  readonly replica: string;
  /** Maximum number of suspended calls. */
  readonly limit: number;
  /** Maximum time that a call is suspended, in milliseconds. */
  readonly timeoutMs: number;
}

/** Maximum size of all suspended calls, in characters: requests, and the messages of their upstreams. */
const MAX_CHARACTERS = 64 * 1024 * 1024;
/** Size that one call may have in any case: an ordinary response is not lost because the limit is used up. */
const MIN_CHARACTERS = 64 * 1024;

/** The `call` of a state without a suspended call: its client is to visit a URL and then to call again. */
const RESTART = 'visit';

/** Prefix of the `call` of a state with the id of a task, which is polled on behalf of the client. */
const TASK = 'task.';

/**
 * Handling of a retry: nothing (an upstream may know its state), restart the call, continue the task, or respond with the
 * outcome.
 */
export type Resumption =
  | { readonly kind: 'foreign' }
  | { readonly kind: 'restart' }
  | { readonly kind: 'task'; readonly task: string }
  | { readonly kind: 'handled'; readonly outcome: RequestOutcome };

/**
 * Calls of modern clients whose legacy upstream sent the client requests and waits for the responses. The client got an
 * `InputRequiredResult` and may retry with the input.
 */
export class SuspendedCalls implements SuspensionStore {
  readonly #options: SuspendedCallsOptions;
  readonly #states: RequestStates;
  /** The calls that are suspended or about to be, by their ids. */
  readonly #calls = new Map<string, SuspendableCall>();
  /** Their number, and their sizes in characters. */
  readonly #count: Quota<SuspendableCall>;
  readonly #characters = new Quota<SuspendableCall>(MAX_CHARACTERS);
  #lastId = 0;
  #closed = false;

  constructor(options: SuspendedCallsOptions) {
    this.#options = options;
    this.#states = new RequestStates(options.sealer);
    this.#count = new Quota(options.limit);
  }

  nextId(): string {
    return `${this.#options.replica}.${++this.#lastId}`;
  }

  reserve(call: SuspendableCall, more: number): boolean {
    const { id, owner } = call;
    if (!this.#calls.has(id) && (this.#closed || !this.#count.allows(owner, 1))) return false;
    const characters = call.characters + more;
    if (characters <= MIN_CHARACTERS) this.#characters.set(call, owner, characters);
    else if (!this.#characters.reserve(call, owner, characters)) return false;
    this.#count.set(call, owner, 1);
    this.#calls.set(id, call);
    return true;
  }

  suspend(call: SuspendableCall): string {
    const { id, round, binding } = call;
    // A call that can have no retry any more expires at once.
    call.expireIn(this.#closed || call.outline.isHidden() ? 0 : this.#options.timeoutMs);
    return this.#states.seal({ call: id, round, ...binding });
  }

  release(call: SuspendableCall): void {
    this.#calls.delete(call.id);
    this.#count.delete(call);
    this.#characters.delete(call);
  }

  /** The process that stores, or stored, the call of a `requestState`; undefined for one that any process can handle. */
  replicaOf(requestState: string): string | undefined {
    const { call } = this.#states.open(requestState) ?? {};
    if (call === undefined || call === RESTART || call.startsWith(TASK)) return undefined;
    return call.slice(0, call.lastIndexOf('.'));
  }

  createRestartState(binding: CallBinding): string {
    return this.#states.seal({ call: RESTART, round: 0, ...binding });
  }

  /** Returns the `requestState` of a client whose retry continues a task. */
  createTaskState(task: string, binding: CallBinding): string {
    return this.#states.seal({ call: `${TASK}${task}`, round: 0, ...binding });
  }

  /**
   * Decides about a request with a `requestState`. A state that was not issued here for this namespace is foreign. One of
   * another principal or request is rejected with -32602; a call that is not suspended (any more) with -32603 and `data.kind`
   * `not_held`.
   */
  resume({ namespace, principal }: ClientFacts, retry: RequestMessage): Resumption {
    const { requestState, inputResponses } = retry.params;
    const state = typeof requestState === 'string' ? this.#states.open(requestState) : undefined;
    if (!state || state.namespace !== namespace) return { kind: 'foreign' };
    if (state.principalHash !== hashOf(principal.key) || state.digest !== digestOf(retry)) {
      return invalid(FOREIGN_STATE);
    }
    if (inputResponses !== undefined && !isJsonObject(inputResponses)) {
      return invalid('parameter "inputResponses" must be an object');
    }
    if (state.call === RESTART) {
      return areAllAccepted(inputResponses) ? { kind: 'restart' } : invalid('the URL was not visited');
    }
    if (state.call.startsWith(TASK)) return { kind: 'task', task: state.call.slice(TASK.length) };
    return { kind: 'handled', outcome: { kind: 'deferred', start: (sink) => this.#resume(state, retry, sink) } };
  }

  /** Expires the calls of what an operator has hidden, and of blocked principals, with a cancellation to their upstreams. */
  *expireHidden(): Steps<void> {
    for (const call of [...this.#calls.values()]) {
      if (call.isSuspended && call.outline.isHidden()) call.expire();
      yield;
    }
  }

  /** Expires all calls, with a cancellation to their upstreams, and suspends none from now on. */
  close(): void {
    this.#closed = true;
    for (const call of [...this.#calls.values()]) if (call.isSuspended) call.expire();
  }

  #resume(state: RequestState, retry: RequestMessage, sink: ResponseSink): void {
    const call = this.#calls.get(state.call);
    if (call?.isSuspended && call.round === state.round) return call.resume(sink, retry);
    const error = {
      code: INTERNAL_ERROR,
      message: `the call is no longer suspended: ${this.#rejectionReason(state)}; send the request again without requestState`,
      data: '{"kind":"not_held"}',
    };
    sink.complete({ kind: 'failed', error });
  }

  #rejectionReason({ call, round }: RequestState): string {
    if (!call.startsWith(`${this.#options.replica}.`)) return 'the service was restarted';
    const known = this.#calls.get(call);
    return known && (known.round > round || !known.isSuspended)
      ? 'it was resumed already'
      : 'it was resumed already, or its input came too late';
  }
}

function invalid(message: string): Resumption {
  return { kind: 'handled', outcome: rpcError(INVALID_PARAMS, message) };
}

/** True if the client accepted all requests. */
function areAllAccepted(inputResponses: JsonObject | undefined): boolean {
  const responses = Object.values(inputResponses ?? {});
  return responses.length > 0 && responses.every((response) => isJsonObject(response) && response.action === 'accept');
}
