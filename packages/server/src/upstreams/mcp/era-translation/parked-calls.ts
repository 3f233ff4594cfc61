import { createHash } from 'node:crypto';
import { isJsonObject, type JsonObject, parseJson } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/scan';
import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import type { TokenSealer } from '@sluice/protocol/seal';
import { type Outcome, rpcError } from '../../../http/context.ts';
import type { CallAttempt } from '../relay/relay.ts';
import type { AskedClient, SuspendableCall, SuspensionStore } from './parkable-call.ts';

/** Whose a parked call is, and for what: a retry has to agree in all of it (mcp 5). */
export interface Binding {
  readonly namespace: string;
  /** Where an authenticating proxy names one. */
  readonly user: string | undefined;
  /** See {@link digestOf}. */
  readonly digest: string;
}

/** What a `requestState` of ours says; of the user only {@link hashOf} the name, which may be long. */
export interface RequestState extends Binding {
  /** Names the parked call, and the process that holds it. */
  readonly call: string;
  /** How often the call had been parked: an earlier state is of no use any more. */
  readonly round: number;
}

/** Longer than any of ours: what does not fit is not opened. */
const MAX_LENGTH = 4096;

/** Seals what `requestState` says, so that clients can neither read nor change nor make it (2026-07-28, MRTR). */
export class RequestStates {
  readonly #sealer: TokenSealer;

  constructor(sealer: TokenSealer) {
    this.#sealer = sealer;
  }

  /** `user` is the name itself. */
  seal({ call, round, namespace, user, digest }: RequestState): string {
    return this.#sealer.seal('requestState', JSON.stringify([call, round, namespace, hashOf(user) ?? null, digest]));
  }

  /** Undefined for anything that was not sealed with our key. */
  open(sealed: string): RequestState | undefined {
    const text = sealed.length <= MAX_LENGTH ? this.#sealer.open('requestState', sealed) : undefined;
    const value: unknown = text === undefined ? undefined : parseJson(text);
    if (!Array.isArray(value)) return undefined;
    const [call, round, namespace, user, digest]: unknown[] = value;
    if (typeof call !== 'string' || typeof round !== 'number') return undefined;
    if (typeof namespace !== 'string' || typeof digest !== 'string') return undefined;
    return { call, round, namespace, user: typeof user === 'string' ? user : undefined, digest };
  }
}

/** Stands for a text of any length. */
export function hashOf(text: string | undefined): string | undefined {
  return text === undefined ? undefined : createHash('sha256').update(text).digest('base64url');
}

/** Members of params that may differ between a request and its retry. */
const OF_ONE_TRY: ReadonlySet<string> = new Set(['_meta', 'inputResponses', 'requestState']);

/** What makes a request the same one when it is sent again: its method, and its params as they were written. */
export function digestOf({ method, text, paramsRange }: RequestMessage): string {
  const params = paramsRange ? [...members(text, paramsRange.start)] : [];
  const parts = params
    .filter(({ key }) => !OF_ONE_TRY.has(key))
    .map(({ key, start, end }) => `${JSON.stringify(key)}:${text.slice(start, end)}`)
    .sort();
  const hash = createHash('sha256').update(method);
  for (const part of parts) hash.update('\n').update(part);
  return hash.digest('base64url');
}

export interface ParkedCallsOptions {
  readonly sealer: TokenSealer;
  /** Names this process, which alone can go on with the calls that it holds. */
  readonly replica: string;
  /** How many calls may wait for their clients at a time. */
  readonly limit: number;
  /** How long one waits, in milliseconds. */
  readonly timeoutMs: number;
}

/** What all parked calls may have together, in characters: their requests, and what their upstreams have asked and sent. */
const MAX_CHARACTERS = 64 * 1024 * 1024;
/** One call may have so much in any case: an ordinary answer is not lost to what others have filled up. */
const ALWAYS = 64 * 1024;

/** The `call` of a state that no call is held for: its client was asked to visit an address, and then to call anew. */
const VISIT = 'visit';

/** Who sends a retry. */
export interface Retrying {
  readonly namespace: { readonly name: string } | undefined;
  readonly user: string | undefined;
}

/** What a `requestState` that a client has sent means: nothing to us, the call anew, or the answer to it. */
export type Resumption =
  | { readonly kind: 'foreign' }
  | { readonly kind: 'anew' }
  | { readonly kind: 'answer'; readonly outcome: Outcome };

/** What one call takes up. */
interface Place {
  readonly call: SuspendableCall;
  readonly owner: string;
  characters: number;
  /** Set while it waits for its client. */
  timer: NodeJS.Timeout | undefined;
}

/**
 * The calls of modern clients whose legacy upstream has asked the client something and waits for the answer (mcp 5). The
 * client has been answered `InputRequiredResult` and comes back with a request of its own, or does not.
 */
export class ParkedCalls implements SuspensionStore {
  readonly #options: ParkedCallsOptions;
  readonly #states: RequestStates;
  /** Those that wait, and those that are about to. */
  readonly #places = new Map<string, Place>();
  /** How many places each user of a namespace has. */
  readonly #owners = new Map<string, number>();
  #characters = 0;
  #count = 0;
  #closed = false;

  constructor(options: ParkedCallsOptions) {
    this.#options = options;
    this.#states = new RequestStates(options.sealer);
  }

  nextId(): string {
    return `${this.#options.replica}.${++this.#count}`;
  }

  admit(call: SuspendableCall, more: number): boolean {
    const place = this.#places.get(call.id);
    if (!place && !this.#hasPlaceFor(call)) return false;
    const characters = call.characters + more;
    const added = characters - (place?.characters ?? 0);
    if (added > 0 && characters > ALWAYS && this.#characters + added > MAX_CHARACTERS) return false;
    if (place) place.characters = characters;
    else this.#take(call, characters);
    this.#characters += added;
    return true;
  }

  /** Nobody can have so many places that there is none for others. */
  #hasPlaceFor(call: SuspendableCall): boolean {
    const { limit } = this.#options;
    const own = this.#owners.get(ownerOf(call)) ?? 0;
    return !this.#closed && this.#places.size < limit && own < Math.ceil(limit / 2);
  }

  #take(call: SuspendableCall, characters: number): void {
    const owner = ownerOf(call);
    this.#owners.set(owner, (this.#owners.get(owner) ?? 0) + 1);
    this.#places.set(call.id, { call, owner, characters, timer: undefined });
  }

  hold(call: SuspendableCall): string {
    const { id, round, binding } = call;
    const place = this.#places.get(id);
    // One that was about to be parked when all others were given up.
    const timeoutMs = this.#closed ? 0 : this.#options.timeoutMs;
    if (place) place.timer = setTimeout(() => call.expire(), timeoutMs).unref();
    return this.#states.seal({ call: id, round, ...binding });
  }

  leave({ id }: SuspendableCall): void {
    const place = this.#places.get(id);
    if (!place) return;
    clearTimeout(place.timer);
    this.#places.delete(id);
    this.#characters -= place.characters;
    const left = (this.#owners.get(place.owner) ?? 0) - 1;
    if (left > 0) this.#owners.set(place.owner, left);
    else this.#owners.delete(place.owner);
  }

  /** The state of a client that has to visit an address before it calls anew. */
  visit(binding: Binding): string {
    return this.#states.seal({ call: VISIT, round: 0, ...binding });
  }

  /**
   * What becomes of a request with a `requestState`. One that was not made here for this namespace is foreign: an upstream
   * may know it. One of another user or request is -32602; a call that is not held (any more) -32603 with `data.kind`
   * `not_held`.
   */
  resume({ namespace, user }: Retrying, retry: CallAttempt): Resumption {
    const { requestState, inputResponses } = retry.message.params;
    const state = typeof requestState === 'string' ? this.#states.open(requestState) : undefined;
    if (!state || state.namespace !== namespace?.name) return { kind: 'foreign' };
    if (state.user !== hashOf(user) || state.digest !== digestOf(retry.message)) return refused(NOT_OURS);
    if (inputResponses !== undefined && !isJsonObject(inputResponses)) {
      return refused('parameter "inputResponses" must be an object');
    }
    if (state.call === VISIT)
      return accepts(inputResponses) ? { kind: 'anew' } : refused('the address was not visited');
    return { kind: 'answer', outcome: { kind: 'stream', start: (client) => this.#resume(state, retry, client) } };
  }

  #resume(state: RequestState, retry: CallAttempt, client: AskedClient): void {
    const place = this.#places.get(state.call);
    if (place?.timer && place.call.round === state.round) {
      clearTimeout(place.timer);
      place.timer = undefined;
      return place.call.resume(client, retry);
    }
    client.error({
      code: INTERNAL_ERROR,
      message: `the call is no longer held: ${this.#whyNot(state)}; send the request anew, without requestState`,
      data: '{"kind":"not_held"}',
    });
  }

  #whyNot({ call, round }: RequestState): string {
    if (!call.startsWith(`${this.#options.replica}.`)) return 'the service was restarted';
    const place = this.#places.get(call);
    return place && (place.call.round > round || !place.timer)
      ? 'it has gone on since'
      : 'it has gone on since, or waited too long for its input';
  }

  /** Gives all of them up: their upstreams are told, and nothing is parked from now on. */
  close(): void {
    this.#closed = true;
    for (const { call, timer } of [...this.#places.values()]) if (timer) call.expire();
  }
}

/** What a `requestState` is called that was not given out for the request that it comes with. */
export const NOT_OURS = 'parameter "requestState" is not one that was given out for this request';

function ownerOf({ owner: { namespace, user } }: SuspendableCall): string {
  return JSON.stringify([namespace, user]);
}

function refused(message: string): Resumption {
  return { kind: 'answer', outcome: rpcError(INVALID_PARAMS, message) };
}

/** True when the client has agreed to all that it was asked. */
function accepts(inputResponses: JsonObject | undefined): boolean {
  const responses = Object.values(inputResponses ?? {});
  return responses.length > 0 && responses.every((response) => isJsonObject(response) && response.action === 'accept');
}
