import { randomUUID } from 'node:crypto';
import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { memberText, memberTexts, withMembers } from '@sluice/protocol/json/text';
import { acceptsServerRequest } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import type { NotificationMessage } from '@sluice/protocol/mcp/message';
import { type CallEnd, CLIENT_CANCELED, CLIENT_DISCONNECTED, type InFlightCall } from '../../in-flight-calls.ts';
import { progressParams } from '../../progress.ts';
import {
  type CallOutcome,
  ForwardingSink,
  failedOutcome,
  joinListeners,
  type ResponseSink,
} from '../../response-sink.ts';
import type { CallDeps, CallSpec } from '../relay/call-spec.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import type { ModernMetadata } from '../relay/request-edits.ts';
import { requiresInput } from '../relay/response-rewrite.ts';
import { MAX_PENDING_REQUESTS, RelayedServerRequests } from '../relay/server-requests.ts';

/** Maximum number of times that an upstream may require input for one call. */
const MAX_ROUNDS = 10;

/**
 * A legacy client's call to a modern upstream. If the upstream requires input, the client gets server requests on the stream of
 * its call, and the upstream gets a retry with the responses: one call upstream for each round, one call for the client.
 */
export class MultiRoundCall extends ForwardingSink implements InFlightCall {
  readonly startedAt: number;
  lastActivityAt: number;
  /** As is the client between two rounds. */
  readonly mayBeIdle = true;
  index = -1;
  readonly #context: CallDeps;
  /** Without modern metadata. */
  readonly #spec: CallSpec;
  readonly #metadata: ModernMetadata;
  #rounds = 0;
  /** Highest progress sent to the client. */
  #progress = Number.NEGATIVE_INFINITY;
  #ended = false;
  #isClientDisconnected = false;
  /** Listeners of the call upstream for the disconnect of the client; undefined while there is no such call. */
  #disconnectListener: (() => void) | undefined = undefined;
  #serverRequests: RelayedServerRequests | undefined = undefined;
  /** Input of this round, as members of `inputResponses`. */
  #inputs: string[] = [];
  /** The `requestState` of this round, as JSON text. */
  #state: string | undefined = undefined;

  constructor(context: CallDeps, spec: CallSpec, metadata: ModernMetadata, client: ResponseSink) {
    super(client);
    this.#context = context;
    this.#spec = spec;
    this.#metadata = metadata;
    this.startedAt = performance.now();
    this.lastActivityAt = this.startedAt;
  }

  start(): void {
    this.inner.onDisconnect(() => this.#onClientDisconnected());
    this.#send([]);
  }

  override onDisconnect(listener: () => void): void {
    this.#disconnectListener = joinListeners(this.#disconnectListener, listener);
  }

  /** Each round has its own progress, but the client's progress must only increase (2025-11-25, "Progress"). */
  override sendMessage(data: string): boolean {
    const progress = progressParams(data)?.progress;
    if (typeof progress === 'number') {
      if (progress <= this.#progress) return true;
      this.#progress = progress;
    }
    return super.sendMessage(data);
  }

  /** The response to one round. */
  override complete(outcome: CallOutcome): void {
    this.#disconnectListener = undefined;
    if (outcome.kind === 'failed') this.#end();
    if (outcome.kind !== 'response' || !requiresInput(outcome.value)) return super.complete(outcome);
    // Without a client there is no further round.
    if (this.#isClientDisconnected) return this.#cancel(CLIENT_DISCONNECTED);
    const { result } = outcome.value;
    if (isJsonObject(result)) this.#requestInput(memberText(outcome.text, 'result') ?? '', result);
  }

  /** Called between two rounds, while there is no call upstream. */
  cancel(_message: NotificationMessage): void {
    this.#cancel(CLIENT_CANCELED);
    super.complete({ kind: 'canceled' });
  }

  end({ error, category }: CallEnd): void {
    this.#end();
    super.complete(failedOutcome(error, category, 'aborted'));
  }

  #cancel(reason: string): void {
    this.observer?.canceled(reason);
    this.#end();
  }

  onDeadline(): void {
    this.#fail(`it did not finish within ${this.#context.calls.limits.totalMs / 1000} s`);
  }

  /** Sends the request upstream; `more` are further params, as JSON text. */
  #send(more: readonly string[]): void {
    const spec = { ...this.#spec, edits: this.#spec.edits.toModern(this.#metadata, more) };
    new RelayedCall(this.#context, spec, this).start(this.startedAt);
  }

  /** Sends the client the input requests of the upstream. */
  #requestInput(text: string, result: JsonObject): void {
    if (++this.#rounds > MAX_ROUNDS) return this.#fail(`the upstream required input more than ${MAX_ROUNDS} times`);
    const problem = this.#findProblem(result);
    if (problem !== undefined) return this.#fail(problem);
    this.#state = memberText(text, 'requestState');
    this.#inputs = [];
    const requests = memberTexts(memberText(text, 'inputRequests') ?? '{}');
    if (requests.size === 0) return this.#retry();
    const { session } = this.client;
    if (!session || session.hasEnded) return this.#fail('the session of the client has ended');
    this.#context.calls.add(this);
    this.#serverRequests ??= new RelayedServerRequests({
      channel: () => session.channel(),
      send: (request) => this.#isClientDisconnected || super.sendMessage(request),
      post: async (response) => this.#onInput(response),
    });
    for (const [key, request] of requests) {
      this.#serverRequests.relay(legacyServerRequest(key, request));
    }
  }

  /** Returns why the input that is required cannot be requested from the client. */
  #findProblem({ inputRequests = {}, requestState }: JsonObject): string | undefined {
    if (!isJsonObject(inputRequests)) return 'the upstream sent inputRequests that are not an object';
    if (requestState !== undefined && typeof requestState !== 'string') {
      return 'the upstream sent a requestState that is not a string';
    }
    const requests = Object.values(inputRequests);
    if (requests.length === 0 && requestState === undefined) {
      return 'the upstream required input without inputRequests or requestState';
    }
    if (requests.length > MAX_PENDING_REQUESTS) {
      return `the upstream sent ${requests.length} input requests at once: at most ${MAX_PENDING_REQUESTS} are allowed`;
    }
    for (const request of requests) {
      const { method, params }: JsonObject = isJsonObject(request) ? request : {};
      if (typeof method !== 'string' || !acceptsServerRequest(this.#metadata.capabilities, method, params)) {
        return `the upstream sent an input request that the client does not support (${truncateText(method, 'no method')})`;
      }
      if (params !== undefined && !isJsonObject(params)) {
        return `the upstream sent an input request with params that are not an object (${truncateText(method, 'no method')})`;
      }
    }
    return undefined;
  }

  /** Handles one response of the client; its id is the key of the input request. */
  #onInput(text: string): void {
    if (this.#ended) return;
    const result = memberText(text, 'result');
    if (result === undefined) {
      const reason = tryParseJson(memberText(memberText(text, 'error') ?? '', 'message') ?? '');
      return this.#fail(`the client did not provide the required input: ${truncateText(reason, 'no reason')}`);
    }
    this.#inputs.push(`${memberText(text, 'id')}:${result}`);
    if (!this.#serverRequests?.pending) this.#retry();
  }

  #retry(): void {
    this.#context.calls.remove(this);
    const more = this.#inputs.length > 0 ? [`"inputResponses":{${this.#inputs.join(',')}}`] : [];
    if (this.#state !== undefined) more.push(`"requestState":${this.#state}`);
    this.#send(more);
  }

  #onClientDisconnected(): void {
    this.#isClientDisconnected = true;
    if (this.#disconnectListener) return this.#disconnectListener();
    this.#cancel(CLIENT_DISCONNECTED);
  }

  #fail(what: string): void {
    if (this.#ended) return;
    this.#end();
    const reason = `${this.#spec.failure}: ${what}`;
    super.complete({ kind: 'failed', error: { code: INTERNAL_ERROR, message: reason } });
  }

  #end(): void {
    this.#ended = true;
    this.#context.calls.remove(this);
    this.#serverRequests?.cancelAll();
  }
}

/** Returns a text of a peer, truncated for a message; `otherwise` for other values. */
function truncateText(text: unknown, otherwise: string): string {
  return typeof text === 'string' ? text.slice(0, 200) : otherwise;
}

/** Returns an input request of a modern upstream as a server request of the legacy era, whose id is its key. */
export function legacyServerRequest(key: string, request: string, editParams = (params: string) => params): string {
  // Some clients require `params`, which are optional.
  const params = editParams(withElicitationId(memberText(request, 'params') ?? '{}'));
  return `{"jsonrpc":"2.0","id":${JSON.stringify(key)},"method":${memberText(request, 'method')},"params":${params}}`;
}

/** Adds the id that the legacy era requires in an elicitation of mode `url`. */
function withElicitationId(params: string): string {
  const keys = memberTexts(params);
  if (keys.get('mode') !== '"url"' || keys.has('elicitationId')) return params;
  return withMembers(params, `"elicitationId":"${randomUUID()}"`);
}
