import type { JsonObject } from '@sluice/protocol/json/parse';
import { MINIMUM_LEVEL, reachesLevel } from '@sluice/protocol/mcp/capabilities';
import { LIST_CHANGED_METHODS } from '@sluice/protocol/mcp/constants';
import { progressTokenOf, progressTokenRange, requestedLevel } from '@sluice/protocol/mcp/message';
import { rejectServerRequest, withParam } from '@sluice/protocol/mcp/message-text';
import { TASK_NOTIFICATION, TASK_STATUS_NOTIFICATION } from '@sluice/protocol/mcp/tasks';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { ServerRequests } from '../../client-requests.ts';
import { tokenOf } from '../../progress.ts';
import { isSameId } from '../request-ids.ts';
import { DefaultResponder, postMessage } from '../rpc-request.ts';
import type { UpstreamSession } from '../upstream-sessions.ts';
import type { AttemptedCall, RelayedRequest } from './call-spec.ts';
import { RelayedServerRequests } from './server-requests.ts';

/** The request that an upstream sends messages for. */
export interface MessageOwner {
  readonly call: AttemptedCall;
  readonly request: RelayedRequest;
  /** Sends the client a message, unless it is not to get any more. */
  readonly notify: (text: string) => void;
  readonly fail: (error: unknown) => void;
}

const TOKEN_KEY = '"progressToken"';

/** Maximum number of requests that are rejected on one call before the call fails. */
const MAX_REJECTED = 16;

/** Messages of an upstream that belong to one call, other than its response. Created with the first one. */
export class CallMessages {
  /** True once the upstream has sent a request: it has processed the call. */
  hasRequests = false;
  readonly #owner: MessageOwner;
  /** Created with the first ping. */
  #pings: DefaultResponder | undefined = undefined;
  /** Undefined if the upstream has sent no request yet, or the client does not support them. */
  #requests: ServerRequests | undefined = undefined;
  #rejected = 0;

  constructor(owner: MessageOwner) {
    this.#owner = owner;
  }

  /** Number of requests that wait for a response of the client. */
  get pending(): number {
    return this.#requests?.pending ?? 0;
  }

  /** Cancels all pending requests: the upstream does not wait for the responses any more. */
  cancelAll(): void {
    this.#requests?.cancelAll();
  }

  /** Fails all pending requests: the client will not respond any more. */
  failAll(): void {
    this.#requests?.failAll();
  }

  /** A message, as text and parsed. */
  onMessage(received: string, value: JsonObject): void {
    const { messages: translator, needsTranslation, upstream } = this.#owner.call.spec;
    const text = translator ? translator.toClient(received, value) : received;
    const { method } = value;
    if (text === undefined || typeof method !== 'string') return;
    if ('id' in value) return this.#onRequest(text, value);
    switch (method) {
      case 'notifications/progress':
        return translator?.isTaskProgress(value) ? this.#owner.notify(text) : this.#onProgress(text, value);
      case 'notifications/message':
        if (this.#wantsLog(value)) this.#owner.notify(text);
        return;
      case 'notifications/cancelled':
        return this.#requests?.onCancelled(text);
      case TASK_NOTIFICATION:
      case TASK_STATUS_NOTIFICATION:
        // It may be a task of others, or one that the client does not know yet.
        if (translator) this.#owner.notify(text);
        return;
      default:
        // Clients are notified once the change has arrived here.
        if (LIST_CHANGED_METHODS.has(method)) return upstream.changed.emit({ kind: 'lists', method });
        // A modern client gets only what relates to its request (2026-07-28, "Receiving Messages").
        if (!needsTranslation || this.#owner.call.sink?.client.era === 'legacy') this.#owner.notify(text);
    }
  }

  /** Progress of other calls is dropped: their clients trust only the stream that their request was sent on. */
  #onProgress(text: string, value: JsonObject): void {
    const isRequested = progressTokenRange(this.#owner.call.spec.message) !== undefined;
    if (isRequested && isSameId(this.#owner.request.id, tokenOf(value))) this.onProgress(text);
  }

  /** Progress of the call, which gets the client's token in place of ours. */
  onProgress(text: string): void {
    const { request, call, notify } = this.#owner;
    const own = progressTokenOf(call.spec.message);
    notify(own === undefined ? text : withToken(text, request.id, own));
  }

  #wantsLog({ params }: JsonObject): boolean {
    const { spec, sink } = this.#owner.call;
    const { era, session } = sink?.client ?? {};
    const minimumLevel = era === 'modern' ? requestedLevel(spec.message) : (session?.state.logLevel ?? MINIMUM_LEVEL);
    return minimumLevel !== undefined && reachesLevel(params, minimumLevel);
  }

  /** Relays a request to the client whose call caused it, if that supports it, else rejects it. */
  #onRequest(text: string, value: JsonObject): void {
    const { method, params } = value;
    const { call, fail } = this.#owner;
    this.hasRequests = true;
    this.#requests ??= this.#relayedRequests();
    const isClientGone = !call.sink || call.sink.client.session?.hasEnded === true;
    if (!isClientGone && this.#requests?.relay(text, value)) return;
    // An upstream may ping for as long as the call takes: pings do not count.
    if (method === 'ping') {
      this.#pings ??= new DefaultResponder((response) => this.#post(response));
      return this.#pings.respond(text, method);
    }
    if (typeof method === 'string') call.spec.rewriter?.onRejected?.(method, params);
    if (++this.#rejected > MAX_REJECTED) {
      const { address } = call.spec.upstream.transport;
      return fail(new UpstreamError('invalid', address, 'keeps sending requests the client does not support'));
    }
    this.#post(rejectServerRequest(text, method)).catch(() => undefined);
  }

  /** Sends the upstream a message; resolves once it was accepted, rejects with `UpstreamError`. */
  #post(text: string): Promise<void> {
    return postInSession(this.#owner.call, this.#owner.request.session, text);
  }

  /** Requests are relayed on the call's own stream, or by suspending the call. Undefined if neither is possible. */
  #relayedRequests(): ServerRequests | undefined {
    const { call, request, fail, notify: send } = this.#owner;
    const post = (text: string) => this.#post(text);
    const { serverRequests } = call.spec;
    if (serverRequests) {
      return serverRequests({
        onRejected: (method, params) => call.spec.rewriter?.onRejected?.(method, params),
        post,
        fail,
      });
    }
    const { session, accepts, era } = call.sink?.client ?? {};
    const isLegacy = era === 'legacy' && request.session.era === 'legacy';
    return session && accepts?.sse && isLegacy
      ? new RelayedServerRequests({ channel: () => session.channel(), send, post })
      : undefined;
  }
}

/** Sends the upstream a message in a session of a call; resolves once it was accepted. */
export async function postInSession(call: AttemptedCall, session: UpstreamSession, message: string): Promise<void> {
  const { upstream, edits, messages } = call.spec;
  const sent = messages?.toUpstream(message) ?? message;
  await postMessage(upstream.transport, [...session.identityHeaders, ...edits.headers], sent);
  call.lastActivityAt = performance.now();
}

/** Replaces our progress token, the id of the request, by the client's. */
function withToken(text: string, id: number, own: string): string {
  // Without escapes and in one place, it can only be the value of the parameter, which was compared.
  const sent = `${TOKEN_KEY}:${id}`;
  const at = text.indexOf(sent);
  const end = at + sent.length;
  const isWhole = text[end] === ',' || text[end] === '}';
  const isOnly = at !== -1 && isWhole && text.indexOf(TOKEN_KEY) === at && text.lastIndexOf(TOKEN_KEY) === at;
  if (!isOnly || text.includes('\\')) return withParam(text, 'progressToken', own);
  return `${text.slice(0, at)}${TOKEN_KEY}:${own}${text.slice(end)}`;
}
