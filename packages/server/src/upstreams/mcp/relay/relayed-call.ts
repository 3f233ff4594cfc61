import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { applyEdits, type Edit, editBytes } from '@sluice/protocol/json/text';
import { MINIMUM_LEVEL, reachesLevel } from '@sluice/protocol/mcp/capabilities';
import {
  HEADER_LAST_EVENT_ID,
  INTERNAL_ERROR,
  LIST_CHANGED_METHODS,
  POLLING_VERSION,
} from '@sluice/protocol/mcp/constants';
import { sendableId } from '@sluice/protocol/mcp/event-stream';
import { type NotificationMessage, requestedLevel, withParam } from '@sluice/protocol/mcp/message';
import { TASK_NOTIFICATION, TASK_STATUS_NOTIFICATION } from '@sluice/protocol/mcp/tasks';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { ServerRequestSource, ServerRequests } from '../../client-requests.ts';
import { failedOutcome, type ResponseBody, type ResponseSink } from '../../response-sink.ts';
import { isSameId, newRequestId, releaseRequestId } from '../request-ids.ts';
import { type ReadRequest, type Rejection, ResponseReader, type RpcResponseHandler } from '../response-reader.ts';
import { isInconclusive, postMessage } from '../rpc-request.ts';
import { LOST_SESSION_REMEDY } from '../session-loss.ts';
import type { UpstreamSession } from '../upstream.ts';
import type { CallContext, CallPlan } from './call-plan.ts';
import { CLIENT_CANCELED, CLIENT_DISCONNECTED, type InFlightCall, SHUTTING_DOWN, tokenOf } from './in-flight-calls.ts';
import type { LargeMessage } from './large-message.ts';
import { progressTokenOf } from './request-rewrite.ts';
import { isWaitingTask, mayCreateTask, sendLargeResponse, sendResponse } from './response-rewrite.ts';
import { ResumeSchedule } from './resume-schedule.ts';
import { CallServerRequests, RelayedServerRequests } from './server-requests.ts';

/** Time that an upstream has to respond to a canceled call, in milliseconds. */
const CANCELED_MS = 500;

const TOKEN_KEY = '"progressToken"';

/** Maximum reconnection delay of a client: shorter than the storage time of its stream, in milliseconds. */
const MAX_POLL_MS = 60_000;

/**
 * One call to an upstream: sends the client's own bytes with the edits of its plan, and returns the response in the same
 * way. Hot path: there is no promise unless a session has to be opened first.
 */
export class RelayedCall implements RpcResponseHandler, InFlightCall {
  readonly startedAt: number;
  activeAt: number;
  slot = -1;
  readonly #context: CallContext;
  #plan: CallPlan;
  readonly #sink: ResponseSink;
  #isDone = false;
  #session: UpstreamSession | undefined = undefined;
  /** Reads the response to the request, or to the latest one that resumes its stream. */
  #reader: ResponseReader | undefined = undefined;
  /** Id of the request upstream, which is also its progress token; 0 before it is sent. */
  #id = 0;
  /** Set once a large JSON response is sent while it arrives. */
  #responseBody: ResponseBody | undefined = undefined;
  /** The client reads too slowly: the upstream is not read. */
  #blocked = false;
  /** The call was sent again in a new session. */
  #resent = false;
  #isClientDisconnected = false;
  /** Set once the client has canceled the call: ends it without a response. */
  #cancelTimer: NodeJS.Timeout | undefined = undefined;
  /** Set once the upstream sent a request on this call. */
  #serverRequests: CallServerRequests | undefined = undefined;
  /** Last event id and `retry` of the stream: where and when it can be resumed. */
  #eventId: string | undefined = undefined;
  #retry: number | undefined = undefined;
  /** Set once the stream was interrupted. */
  #resumeSchedule: ResumeSchedule | undefined = undefined;

  /** `startedAt`: start of the client's call, if this is not the first call upstream for it. */
  constructor(context: CallContext, plan: CallPlan, sink: ResponseSink, startedAt?: number) {
    this.#context = context;
    this.#plan = plan;
    this.#sink = sink;
    this.activeAt = performance.now();
    this.startedAt = startedAt ?? this.activeAt;
  }

  start(): void {
    this.#sink.onDisconnect(() => this.#onClientDisconnected());
    this.#connect();
  }

  #connect(): void {
    // The deadlines include opening a session: the client waits for it as well.
    this.#context.calls.add(this);
    const session = this.#plan.openSession(this.#resent);
    if (!(session instanceof Promise)) return this.#send(session);
    session.then(
      (opened) => this.#send(opened),
      (error: unknown) => this.#fail(error),
    );
  }

  #send(session: UpstreamSession): void {
    // The client may have disconnected, or the deadline passed, while the session was opened.
    if (this.#isDone) {
      session.leased = false;
      return;
    }
    const { upstream, message, edits, progressToken, headers } = this.#plan;
    this.#session = session;
    session.inFlight++;
    this.#id = newRequestId();
    const id = String(this.#id);
    const all: Edit[] = [{ start: message.idRange.start, end: message.idRange.end, text: id }, ...edits];
    if (progressToken) all.push({ ...progressToken, text: id });
    const body = message.bytes ? editBytes(message.bytes, all) : applyEdits(message.text, all);
    const isAscii = message.isAscii && edits.length === 0;
    this.#reader = new ResponseReader(upstream.transport.address, this.#read(message.method, session.sessionId), this);
    const request = { method: 'POST', headers: [...session.headers, ...headers], body, isAscii };
    this.#reader.send(upstream.transport, request);
  }

  #read(name: string, sessionId: string | undefined, requiresStream = false): ReadRequest {
    return { id: this.#id, name, sessionId, requiresStream, maxBytes: this.#context.maxResponseBytes };
  }

  get #httpStatus(): number {
    return this.#reader?.status ?? 0;
  }

  get isBlocked(): boolean {
    return this.#blocked;
  }

  onActivity(): void {
    this.activeAt = performance.now();
  }

  cork(): void {
    this.#sink.cork(true);
  }

  uncork(): void {
    this.#sink.cork(false);
  }

  onLargePart(large: LargeMessage, isFirst: boolean): void {
    if (this.#reader?.isStream !== false) return;
    this.#responseBody ??= this.#startBody(large, isFirst);
    if (this.#responseBody) this.#relayPart(large, this.#responseBody);
  }

  /** Between eras, and if it begins an event stream, a large result is sent when it is complete. */
  #startBody(large: LargeMessage, isFirst: boolean): ResponseBody | undefined {
    if (this.#plan.rewriter || this.#httpStatus >= 300 || this.#isClientDisconnected) return undefined;
    if (!large.isRelayable(this.#id)) return undefined;
    const announced = this.#reader?.contentLength;
    return this.#sink.startBody(announced && large.lengthWithId(this.#sink.client.idText, announced), isFirst);
  }

  /** Sends what has arrived of a large result. */
  #relayPart(large: LargeMessage, body: ResponseBody): void {
    if (large.isInvalid) return this.#failUnusable('text that is not JSON');
    const { maxResponseBytes } = this.#context;
    if (large.depth > maxResponseBytes) {
      return this.#fail(this.#error('too-large', `answered with more than ${maxResponseBytes} nested values`));
    }
    // With a length, the last part completes the response for its client: it is sent when all of it has been checked.
    if (large.length === this.#reader?.contentLength) return;
    const { parts, free } = large.take(this.#sink.client.idText);
    if (parts.length > 0 && !this.#isClientDisconnected && !body.write(parts, free)) this.#block();
  }

  /** Handling a message of the upstream failed: that fails this call, and not the service. */
  onInternalError(error: unknown): void {
    if (!this.#isDone) return this.#fail(error);
    this.#context.log.error('call failed', { method: this.#plan.message.method, error });
    const message = `${this.#plan.failure}: internal error`;
    this.#sink.complete({ kind: 'failed', error: { code: INTERNAL_ERROR, message } });
  }

  /** The upstream does not know the session and did not process the call: sends it again, once, in a new session. */
  onSessionUnknown({ error, status }: Rejection): void {
    const session = this.#session;
    // An upstream that sent a request has processed the call.
    if (this.#resumeSchedule)
      return this.#fail(this.#error('http', `did not resume its event stream (HTTP ${status})`));
    if (this.#serverRequests || this.#cancelTimer || !session) return this.#fail(error);
    if (this.#resent)
      return this.#fail(
        this.#error('http', `does not know a session that it has just opened (HTTP ${status}): ${LOST_SESSION_REMEDY}`),
      );
    this.#resent = true;
    this.#release();
    this.#plan.upstream.sessions.onLost(session);
    this.#connect();
  }

  onRejected({ error, status }: Rejection): void {
    const schedule = this.#resumeSchedule;
    if (!schedule) return this.#failIn(error);
    // An attempt to resume the stream failed.
    if (this.#reader?.isStream === true || status === undefined) return this.#onStreamFailed(error);
    const what = this.#error('http', `did not resume its event stream (HTTP ${status})`);
    if (isInconclusive(status)) this.#onStreamFailed(what);
    else this.#fail(what);
  }

  /** Fails the call with an error that may be that of the session. */
  #failIn(error: UpstreamError): void {
    const verdict = this.#reader?.session ?? 'known';
    const session = this.#session;
    this.#fail(error);
    if (session) this.#plan.upstream.sessions.check(session, verdict);
  }

  requiresText(value: JsonObject): boolean {
    const isWaiting = this.#plan.message.method === 'tasks/get' && isWaitingTask(value);
    return isWaiting || this.#createsTask(value) || this.#sink.needsText(value);
  }

  onLargeEnd(large: LargeMessage): boolean {
    const body = this.#responseBody;
    if (body) this.#finishBody(body, large);
    return body !== undefined;
  }

  /** The response was sent while it arrived, but for the last part of one with a length. */
  #finishBody(body: ResponseBody, large: LargeMessage): void {
    const { value } = large;
    if (!isJsonObject(value) || 'error' in value || !isSameId(this.#id, value.id)) {
      return this.#failUnusable('JSON that is not the response to the call');
    }
    // Its client has the id of the upstream, which is not valid here.
    if (this.#createsTask(value)) return this.#failUnusable('a task that is too large');
    this.#onResponded(value);
    const { parts, free } = large.take(this.#sink.client.idText);
    if (parts.length > 0 && !this.#isClientDisconnected) body.write(parts, free);
    this.#sink.complete({ kind: 'sent', value });
  }

  onResponse(text: string, value: JsonObject, isAscii: boolean, large: LargeMessage | undefined): void {
    const { upstream } = this.#plan;
    const session = this.#session;
    const { isStream = false, session: verdict = 'known' } = this.#reader ?? {};
    const messages = isStream ? this.#plan.messages : undefined;
    if (large) this.#succeedLarge(large, value);
    else this.#succeed(messages?.toClient(text, value) ?? text, value, isAscii);
    // The next request of this client is sent in another session.
    if (session && verdict !== 'known') upstream.sessions.check(session, verdict);
  }

  #failUnusable(body: string): void {
    this.#fail(this.#error('invalid', `answered with ${body}`));
  }

  /** `isAscii`: the text is known to be ASCII. */
  #succeed(text: string, value: JsonObject, isAscii = false): void {
    if (mayCreateTask(value) && this.#createsTask(value)) {
      return this.#cancelTimer ? this.#endCanceled() : this.#onTaskCreated(text, value);
    }
    // An adapter may continue the call in its session, and the client may have to be notified that requests are canceled.
    const respondsFirst = this.#sink.isAwaited && !this.#plan.rewriter && !this.#serverRequests;
    if (!respondsFirst) this.#onResponded(value);
    sendResponse(this.#sink, this.#plan, text, value, this.#httpStatus, isAscii);
    if (respondsFirst) this.#onResponded(value);
  }

  #succeedLarge(large: LargeMessage, value: JsonObject): void {
    this.#onResponded(value);
    sendLargeResponse(this.#sink, this.#plan, large, value, this.#httpStatus);
  }

  #createsTask(value: JsonObject): boolean {
    const { tasks } = this.#plan;
    const session = this.#session;
    if (!tasks || !session || !mayCreateTask(value) || !isJsonObject(value.result)) return false;
    return tasks.isCreated(this.#plan, session.era, value.result);
  }

  #onTaskCreated(text: string, value: JsonObject): void {
    const session = this.#session;
    const { tasks, upstream } = this.#plan;
    if (!session || !tasks) return;
    const [plan, sink, requestId] = [this.#plan, this.#sink, String(this.#id)];
    // Before the session is released: the task keeps it open.
    const isClientDisconnected = this.#isClientDisconnected;
    tasks.onCreated({ plan, session, requestId, sink, isClientDisconnected }, text, value);
    this.#settle(true);
    if (!upstream.isAvailable) upstream.observer.onCallSucceeded();
  }

  #onResponded(value: JsonObject): void {
    const { upstream, forward } = this.#plan;
    const { namespace } = this.#sink.client;
    this.#settle(true);
    if (!upstream.isAvailable) upstream.observer.onCallSucceeded();
    if (forward !== undefined && namespace !== undefined) {
      this.#context.resourceLinks.record(namespace, forward, value);
    }
    // Between eras, the message may be sent again.
    if (this.#reader?.isSent && !this.#plan.needsTranslation) this.#plan.message.bytes?.free();
  }

  onCursor(id: string | undefined, retry: number | undefined): void {
    if (id !== undefined) this.#eventId = id;
    if (retry !== undefined) this.#retry = retry;
  }

  onSessionMessage(data: string, value: JsonObject): boolean {
    this.activeAt = performance.now();
    if (value.method !== undefined) this.onMessage(data, value);
    return !this.#blocked;
  }

  onMessage(sent: string, value: JsonObject): void {
    this.#resumeSchedule?.onMessage();
    const { messages } = this.#plan;
    const data = messages ? messages.toClient(sent, value) : sent;
    const { method } = value;
    if (data === undefined || typeof method !== 'string') return;
    if ('id' in value) return this.#onServerRequest(data, value);
    switch (method) {
      case 'notifications/progress':
        return messages?.isTaskProgress(value) ? this.#notify(data) : this.#onProgressNotification(data, value);
      case 'notifications/message':
        if (this.#wantsLog(value)) this.#notify(data);
        return;
      case 'notifications/cancelled':
        return this.#serverRequests?.onCancelled(data);
      case TASK_NOTIFICATION:
      case TASK_STATUS_NOTIFICATION:
        // It may be a task of others, or one that the client does not know yet.
        if (messages) this.#notify(data);
        return;
      default:
        // Clients are notified once the change has arrived here.
        if (LIST_CHANGED_METHODS.has(method)) return this.#plan.upstream.observer.onListsChanged(method);
        // A modern client gets only what relates to its request (2026-07-28, "Receiving Messages").
        if (!this.#plan.needsTranslation || this.#sink.client.era === 'legacy') this.#notify(data);
    }
  }

  /** Sends the client a notification. */
  #notify(data: string): void {
    if (this.#isClientDisconnected || this.#cancelTimer || this.#responseBody || !this.#sink.client.accepts.sse) return;
    if (!this.#sink.sendMessage(data)) this.#block();
  }

  /** Pauses the upstream until the client has read what was sent. */
  #block(): void {
    if (this.#blocked) return;
    this.#blocked = true;
    this.#sink.onDrain(() => {
      this.#blocked = false;
      // First, since the call may end with the rest of its response and then has no session. It may block the call again.
      this.#session?.bridge?.resume?.();
      if (!this.#blocked) this.#reader?.resume();
    });
  }

  /** Progress of other calls is dropped: their clients trust only the stream that their request was sent on. */
  #onProgressNotification(data: string, value: JsonObject): void {
    if (this.hasProgressToken(tokenOf(value))) this.#notify(this.#withClientToken(data));
  }

  onProgress(data: string): void {
    this.activeAt = performance.now();
    // That stream cannot be paused for this client: it misses progress until it has read the buffered messages.
    if (!this.#blocked) this.#notify(this.#withClientToken(data));
  }

  /** Replaces our progress token by the client's. */
  #withClientToken(data: string): string {
    const { message, progressToken } = this.#plan;
    if (!progressToken) return data;
    const own = message.text.slice(progressToken.start, progressToken.end);
    // Without escapes and in one place, it can only be the value of the parameter, which was compared.
    const sent = `"progressToken":${this.#id}`;
    const at = data.indexOf(sent);
    const end = at + sent.length;
    const isWhole = data[end] === ',' || data[end] === '}';
    const isOnly = at !== -1 && isWhole && data.indexOf(TOKEN_KEY) === at && data.lastIndexOf(TOKEN_KEY) === at;
    if (!isOnly || data.includes('\\')) return withParam(data, 'progressToken', own);
    return `${data.slice(0, at)}${TOKEN_KEY}:${own}${data.slice(end)}`;
  }

  #wantsLog({ params }: JsonObject): boolean {
    const { era, session } = this.#sink.client;
    const minimumLevel = era === 'modern' ? requestedLevel(this.#plan.message) : (session?.logLevel ?? MINIMUM_LEVEL);
    return minimumLevel !== undefined && reachesLevel(params, minimumLevel);
  }

  /** Relays a request of the upstream to the client whose call caused it. */
  #onServerRequest(data: string, value: JsonObject): void {
    this.#serverRequests ??= this.#createServerRequests();
    this.#serverRequests.handle(
      data,
      value,
      this.#isClientDisconnected || this.#sink.client.session?.hasEnded === true,
    );
  }

  #createServerRequests(): CallServerRequests {
    const source: ServerRequestSource = {
      onRejected: (method, params) => this.#plan.rewriter?.onRejected?.(method, params),
      post: (text) => this.#post(text),
      fail: (error) => this.#fail(error),
    };
    return new CallServerRequests(this.#relayedRequests(source), source, () =>
      this.#fail(this.#error('invalid', 'keeps sending requests the client does not support')),
    );
  }

  /** Requests are relayed on the call's own stream, or by suspending the call. Undefined if neither is possible. */
  #relayedRequests(source: ServerRequestSource): ServerRequests | undefined {
    const { serverRequests } = this.#plan;
    if (serverRequests) return serverRequests(source);
    const { session, accepts, era } = this.#sink.client;
    const isLegacy = era === 'legacy' && this.#session?.era === 'legacy';
    if (!session || !accepts.sse || !isLegacy) return undefined;
    const channel = () => session.channel();
    return new RelayedServerRequests({ channel, send: (text) => this.#notify(text), post: source.post });
  }

  matches(session: string, idText: string): boolean {
    const { client } = this.#sink;
    return client.session?.id === session && client.idText === idText;
  }

  hasProgressToken(token: string | undefined): boolean {
    return token !== undefined && this.#plan.progressToken !== undefined && isSameId(this.#id, token);
  }

  usesSession(session: UpstreamSession): boolean {
    return this.#session === session;
  }

  /** Continues the call for another message: a retry of the client, with headers and rewriter, or the outline of its message. */
  continueWith(change: Pick<CallPlan, 'message'> & Partial<Pick<CallPlan, 'headers' | 'rewriter'>>): void {
    this.#plan = { ...this.#plan, ...change, progressToken: progressTokenOf(change.message) };
  }

  cancel({ text }: NotificationMessage): void {
    if (this.#isDone || this.#cancelTimer) return;
    this.#plan.onAbandoned?.();
    this.#sink.observer?.canceled(CLIENT_CANCELED);
    if (this.#session?.era !== 'legacy') return this.#endCanceled();
    this.#post(withParam(text, 'requestId', String(this.#id))).catch(() => undefined);
    this.#serverRequests?.cancelAll();
    // Some servers respond to a canceled request, and some clients wait for that.
    this.#cancelTimer = setTimeout(() => this.#endCanceled(), CANCELED_MS).unref();
  }

  #endCanceled(): void {
    if (this.#isDone) return;
    this.#settle();
    this.#reader?.abort();
    this.#sink.complete({ kind: 'canceled' });
  }

  onDeadline(limit: 'idle' | 'total'): void {
    if (limit === 'idle' && this.#isIdleAllowed()) {
      this.activeAt = performance.now();
      this.#context.calls.add(this);
      return;
    }
    const { idleMs, totalMs } = this.#context.calls.limits;
    const what = limit === 'idle' ? `sent nothing for ${idleMs / 1000} s` : `did not finish within ${totalMs / 1000} s`;
    this.#plan.onAbandoned?.();
    this.#postCancellation('it took too long');
    this.#fail(this.#error('timeout', what));
  }

  onShutdown(): void {
    if (this.#isDone) return;
    this.#plan.onAbandoned?.();
    this.#postCancellation(SHUTTING_DOWN.message);
    this.#settle();
    this.#reader?.abort();
    this.#sink.complete(failedOutcome(SHUTTING_DOWN, 'SERVICE_UNAVAILABLE', 'aborted'));
  }

  /** True while a slow client blocks the upstream or owes it a response, or the upstream announced a pause. */
  #isIdleAllowed(): boolean {
    if (this.#plan.waitsForTask) return true;
    return this.#blocked || Boolean(this.#serverRequests?.pending) || Boolean(this.#resumeSchedule?.isWaiting);
  }

  #onClientDisconnected(): void {
    this.#isClientDisconnected = true;
    this.#blocked = false;
    if (this.#isDone) return;
    if (this.#sink.client.era === 'legacy') {
      this.#serverRequests?.failAll();
      this.#reader?.resume();
      return;
    }
    this.#plan.onAbandoned?.();
    this.#sink.observer?.canceled(CLIENT_DISCONNECTED);
    this.#postCancellation(CLIENT_DISCONNECTED);
    this.#settle();
    this.#reader?.abort();
  }

  /** Cancels the call at a legacy upstream. For a modern one, the end of its request is the cancellation. */
  #postCancellation(reason: string): void {
    const session = this.#session;
    if (session?.era !== 'legacy') return;
    const params = `{"requestId":${this.#id},"reason":"${reason}"}`;
    // The session stays open until the upstream has the cancellation.
    session.inFlight++;
    this.#post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`)
      .catch(() => undefined)
      .finally(() => this.#plan.upstream.sessions.release(session, this.activeAt));
  }

  /** Sends the upstream a message in the session of the call; resolves once it was accepted. */
  async #post(message: string): Promise<void> {
    const { upstream, headers, messages } = this.#plan;
    const sent = messages?.toUpstream(message) ?? message;
    await postMessage(upstream.transport, [...(this.#session?.identityHeaders ?? []), ...headers], sent);
    this.activeAt = performance.now();
  }

  /** The upstream ended its stream to be polled for the rest; so does the client, which needs no connection meanwhile. */
  onStreamEnd(error: UpstreamError | undefined): void {
    if (error) return this.#onStreamFailed(error);
    const { session, accepts } = this.#sink.client;
    this.#resumeSchedule?.onEnd();
    this.#onStreamFailed(this.#error('dropped', this.#reader?.incompleteStream ?? ''));
    if (this.#isDone || this.#isClientDisconnected || !accepts.sse || this.#serverRequests?.pending) return;
    const pollMs = Math.min(this.#resumeSchedule?.retryMs ?? 0, MAX_POLL_MS);
    if (session && session.protocolVersion >= POLLING_VERSION) this.#sink.disconnect(pollMs);
  }

  /** Resumes the stream if the upstream made it resumable. */
  #onStreamFailed(error: UpstreamError): void {
    const session = this.#session;
    const eventId = this.#eventId === undefined ? undefined : sendableId(this.#eventId);
    if (session?.era !== 'legacy' || eventId === undefined) return this.#fail(error);
    this.#resumeSchedule ??= new ResumeSchedule();
    if (!this.#resumeSchedule.schedule(error, this.#retry, () => this.#resume(session, eventId))) this.#fail(error);
  }

  #resume(session: UpstreamSession, eventId: string): void {
    const { upstream, headers } = this.#plan;
    const resumption = ['Accept', 'text/event-stream', HEADER_LAST_EVENT_ID, eventId];
    const { transport } = upstream;
    this.#reader = new ResponseReader(transport.address, this.#read('GET', session.sessionId, true), this);
    this.#reader.send(transport, { method: 'GET', headers: [...session.identityHeaders, ...headers, ...resumption] });
  }

  #fail(error: unknown): void {
    if (this.#isDone) return;
    if (this.#cancelTimer) return this.#endCanceled();
    this.#settle();
    this.#reader?.abort();
    const { log } = this.#context;
    const { message, upstream, failure } = this.#plan;
    const reason = `${failure}: ${error instanceof UpstreamError ? error.message : 'internal error'}`;
    const failed = { code: INTERNAL_ERROR, message: reason };
    if (error instanceof UpstreamError) {
      upstream.observer.onCallFailed(error);
      log.debug('call failed', { method: message.method, error });
      const category = error.isUnavailable ? 'SERVICE_UNAVAILABLE' : 'UNKNOWN';
      return this.#sink.complete(failedOutcome(failed, category, error.kind));
    }
    log.error('call failed', { method: message.method, upstream: upstream.transport.address, error });
    this.#sink.complete({ kind: 'failed', error: failed });
  }

  #settle(succeeded = false): void {
    this.#serverRequests?.cancelAll();
    this.#isDone = true;
    clearTimeout(this.#cancelTimer);
    this.#resumeSchedule?.cancel();
    this.#plan.onSettled?.();
    this.#release(succeeded);
  }

  /**
   * Releases the session. An exclusive session is discarded if the upstream may still be processing the call, or if
   * messages of the call are still blocked on the session's own stream.
   */
  #release(succeeded = false): void {
    this.#context.calls.remove(this);
    if (this.#id !== 0) releaseRequestId(this.#id);
    const session = this.#session;
    if (!session) return;
    this.#session = undefined;
    const { sessions } = this.#plan.upstream;
    if (session.leased && (!succeeded || this.#blocked)) sessions.discard(session);
    sessions.release(session, this.activeAt);
  }

  #error(kind: UpstreamError['kind'], what: string): UpstreamError {
    return new UpstreamError(kind, this.#plan.upstream.transport.address, what, { status: this.#httpStatus });
  }
}
