import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { applyEdits, type Edit, editBytes, elements } from '@sluice/protocol/json/text';
import { MINIMUM_LEVEL, reachesLevel } from '@sluice/protocol/mcp/capabilities';
import {
  HEADER_LAST_EVENT_ID,
  INTERNAL_ERROR,
  LIST_CHANGED_METHODS,
  POLLING_VERSION,
} from '@sluice/protocol/mcp/constants';
import {
  type EventSink,
  EventStreamDecoder,
  type ServerSentEvent,
  sendableId,
} from '@sluice/protocol/mcp/event-stream';
import { type NotificationMessage, requestedLevel, withParam } from '@sluice/protocol/mcp/message';
import { TASK_NOTIFICATION, TASK_STATUS_NOTIFICATION } from '@sluice/protocol/mcp/tasks';
import { detach } from '@sluice/protocol/text';
import type { ResponseHandler, ResponseHeaders, UpstreamCall } from '../../../http/client/client.ts';
import { UpstreamError } from '../../../http/client/errors.ts';
import { mediaType } from '../../../http/client/response-parser.ts';
import { copyOf } from '../../../http/message-parser.ts';
import { type CallResponse, makeResumable, type ResponseBody } from '../../downstream.ts';
import { credentialsHint } from '../http-error.ts';
import { isInconclusive, isSessionNotFound, newRequestId, postMessage } from '../rpc-request.ts';
import type { UpstreamSession } from '../upstream.ts';
import type { CallContext, CallPlan, CallRequest, ResponseRewriter } from './call-plan.ts';
import { CLIENT_CANCELED, CLIENT_DISCONNECTED, type InFlightCall, SHUTTING_DOWN, tokenOf } from './in-flight-calls.ts';
import { LARGE_MESSAGE_BYTES, LargeMessage } from './large-message.ts';
import { progressTokenOf } from './request-rewrite.ts';
import {
  isResponseTo,
  isWaitingTask,
  mayCreateTask,
  requiresInput,
  sendLargeResponse,
  sendResponse,
} from './response-rewrite.ts';
import { ResumeSchedule } from './resume-schedule.ts';
import {
  CallServerRequests,
  RelayedServerRequests,
  type ServerRequestSource,
  type ServerRequests,
} from './server-requests.ts';

/** Time an upstream may keep a stream open after the response, so that its connection can be reused, in milliseconds. */
const LINGER_MS = 1_000;

/** Maximum reconnection delay of a client: shorter than the storage time of its stream, in milliseconds. */
const MAX_POLL_MS = 60_000;

/** State of the upstream's response: none yet, a JSON body, an event stream, or complete. */
type Mode = 'waiting' | 'json' | 'stream' | 'done';

/**
 * One call to an upstream: sends the client's own bytes with the edits of its plan, and returns the response in the same
 * way. Hot path: one object per call is both the response handler and the event sink, and there is no promise unless a
 * session has to be opened first.
 */
export class RelayedCall implements ResponseHandler, EventSink, InFlightCall {
  readonly startedAt: number;
  activeAt: number;
  slot = -1;
  isSlow = false;
  readonly #context: CallContext;
  #plan: CallPlan;
  readonly #response: CallResponse;
  #mode: Mode = 'waiting';
  #session: UpstreamSession | undefined = undefined;
  #request: UpstreamCall | undefined = undefined;
  /** Id of the request upstream, which is also its progress token. */
  #id = '';
  #status = 0;
  /** A JSON body that arrives in several pieces. */
  #body: ChunkBuffer | undefined = undefined;
  /** The text of a small JSON body that has arrived, and whether it is ASCII. */
  #text = '';
  #isAscii = false;
  /** Set for a large JSON body, or while a large event arrives. */
  #large: LargeMessage | undefined = undefined;
  /** Set once a large JSON response is sent while it arrives. */
  #responseBody: ResponseBody | undefined = undefined;
  /** Content-Length of the response, if it has one. */
  #length: number | undefined = undefined;
  #decoder: EventStreamDecoder | undefined = undefined;
  /** The client reads too slowly: the upstream is not read. */
  #blocked = false;
  /** The call was sent again in a new session. */
  #resent = false;
  #isClientDisconnected = false;
  #lingerTimer: NodeJS.Timeout | undefined = undefined;
  /** Set once the upstream sent a request on this call. */
  #serverRequests: CallServerRequests | undefined = undefined;
  /** Last event id and `retry` of the stream: where and when it can be resumed. */
  #eventId: string | undefined = undefined;
  #retry: number | undefined = undefined;
  /** Set once the stream was interrupted. */
  #resumeSchedule: ResumeSchedule | undefined = undefined;
  /** A request to resume the stream was sent and not answered yet. */
  #resuming = false;

  /** `startedAt`: start of the client's call, if this is not the first call upstream for it. */
  constructor(context: CallContext, plan: CallPlan, response: CallResponse, startedAt?: number) {
    this.#context = context;
    this.#plan = plan;
    this.#response = response;
    this.activeAt = performance.now();
    this.startedAt = startedAt ?? this.activeAt;
  }

  start(): void {
    const { observer, summary } = this.#plan;
    if (summary) observer.begin(summary, this.activeAt);
    this.#response.onDisconnect(() => this.#onClientDisconnected());
    this.#connect();
  }

  #connect(): void {
    // The deadlines include opening a session: the client waits for it as well.
    this.#context.calls.add(this);
    const session = this.#plan.openSession();
    if (!(session instanceof Promise)) return this.#send(session);
    session.then(
      (opened) => this.#send(opened),
      (error: unknown) => this.#fail(error),
    );
  }

  #send(session: UpstreamSession): void {
    // The client may have disconnected, or the deadline passed, while the session was opened.
    if (this.#mode === 'done') {
      session.leased = false;
      return;
    }
    const { upstream, message, edits, progressToken, headers } = this.#plan;
    this.#session = session;
    session.inFlight++;
    this.#id = newRequestId();
    const id = `"${this.#id}"`;
    const all: Edit[] = [{ start: message.idRange.start, end: message.idRange.end, text: id }, ...edits];
    if (progressToken) all.push({ ...progressToken, text: id });
    const body = message.bytes ? editBytes(message.bytes, all) : applyEdits(message.text, all);
    const isAscii = message.isAscii && edits.length === 0;
    this.#request = upstream.transport.dispatch(
      { method: 'POST', headers: [...session.headers, ...headers], body, isAscii },
      this,
    );
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.#status = status;
    // The head of a resumed stream does not count as activity: the stream must contain a message.
    if (this.#resuming) return this.#onResumed(headers);
    this.activeAt = performance.now();
    if (status === 404 && this.#session?.sessionId !== undefined) return this.#resend();
    const type = mediaType(headers);
    if (type === 'text/event-stream' && status < 300) {
      this.#mode = 'stream';
      this.#decoder = new EventStreamDecoder(this, this.#context.maxResponseBytes);
    } else if (type === 'application/json') {
      this.#mode = 'json';
      const { 'content-length': length } = headers;
      this.#length = typeof length === 'string' ? Number(length) : undefined;
    } else {
      this.#fail(
        this.#error(
          'http',
          `answered with HTTP ${status}${type && ` and content type ${type}`}${credentialsHint(status)}`,
        ),
      );
    }
  }

  onData(chunk: Buffer): boolean {
    try {
      if (this.#mode === 'stream') {
        const { isStreaming } = this.#response;
        if (isStreaming) this.#response.cork?.();
        this.#decoder?.write(chunk);
        if (isStreaming) this.#response.uncork?.();
        return !this.#blocked;
      }
      if (this.#mode !== 'json') return true;
      this.activeAt = performance.now();
      this.#body ??= new ChunkBuffer();
      const body = this.#body;
      const size = (this.#large ?? body).length + chunk.length;
      if (!this.#responseBody && size > this.#context.maxResponseBytes) {
        this.#fail(this.#error('too-large', `answered with more than ${this.#context.maxResponseBytes} bytes`));
      } else if (this.#large) {
        this.#large.write(chunk);
        this.#relayPart(this.#large);
      } else {
        body.push(chunk);
        if (size >= LARGE_MESSAGE_BYTES) for (const part of body.chunks) this.#writeLarge(part);
      }
    } catch (error) {
      this.#onInternalError(error);
    }
    return !this.#blocked;
  }

  onWholeBody(buffer: Buffer, start: number, end: number): boolean {
    const size = end - start;
    if (this.#mode !== 'json' || size >= LARGE_MESSAGE_BYTES || size > this.#context.maxResponseBytes) {
      return this.onData(copyOf(buffer, start, end));
    }
    this.activeAt = performance.now();
    this.#decode(buffer, start, end);
    return !this.#blocked;
  }

  #decode(buffer: Buffer, start: number, end: number): void {
    this.#text = buffer.toString('utf8', start, end);
    // Bytes that are not UTF-8 are replaced, each by one character.
    this.#isAscii = this.#text.length === end - start && !this.#text.includes('\ufffd');
  }

  /** Scans a large message as it arrives. */
  #writeLarge(bytes: Buffer): void {
    this.#large ??= new LargeMessage();
    this.#large.write(bytes);
  }

  /** Sends what has arrived of a large result. Between eras and in event streams, it is sent when it is complete. */
  #relayPart(large: LargeMessage): void {
    const response = this.#response;
    if (!this.#responseBody) {
      const { json, rewriter } = this.#plan;
      if (!json || rewriter || this.#status >= 300 || response.isStreaming || this.#isClientDisconnected) return;
      if (!large.isRelayable(this.#id)) return;
      const length = this.#length && large.lengthWithId(response.idText, this.#length);
      this.#responseBody = response.beginBody?.(length);
    }
    if (large.isInvalid) return this.#failUnusable('text that is not JSON');
    const { maxResponseBytes } = this.#context;
    if (large.depth > maxResponseBytes) {
      return this.#fail(this.#error('too-large', `answered with more than ${maxResponseBytes} nested values`));
    }
    const body = this.#responseBody;
    // With a length, the last part completes the response for its client: it is sent when all of it has been checked.
    if (!body || large.length === this.#length) return;
    const { parts, free } = large.take(response.idText);
    if (parts.length > 0 && !this.#isClientDisconnected && !body.write(parts, free)) this.#block();
  }

  onEnd(): void {
    clearTimeout(this.#lingerTimer);
    try {
      if (this.#mode === 'json') this.#finishJson();
      else if (this.#mode === 'stream') this.#onStreamEnded();
      else if (this.#mode === 'waiting')
        this.#fail(this.#error('invalid', `ended without a response (HTTP ${this.#status})`));
    } catch (error) {
      this.#onInternalError(error);
    }
  }

  onError(error: UpstreamError): void {
    if (this.#mode === 'stream') this.#onStreamFailed(error);
    else this.#fail(error);
  }

  /** Handling a message of the upstream failed: that fails this call, and not the service. */
  #onInternalError(error: unknown): void {
    if (this.#mode !== 'done') return this.#fail(error);
    this.#context.log.error('call failed', { method: this.#plan.message.method, error });
    this.#response.sendError({ code: INTERNAL_ERROR, message: `${this.#plan.failure}: internal error` });
  }

  /** The upstream discarded the session and did not process the call: sends it again, once, in a new session. */
  #resend(): void {
    const session = this.#session;
    // An upstream that sent a request has processed the call.
    if (this.#resent || this.#serverRequests || !session)
      return this.#fail(this.#error('http', `answered with HTTP ${this.#status}`));
    this.#resent = true;
    this.#release();
    this.#request?.abort();
    this.#mode = 'waiting';
    this.#body = undefined;
    this.#text = '';
    this.#large = undefined;
    this.#plan.upstream.sessions.discard(session);
    this.#connect();
  }

  #finishJson(): void {
    if (this.#large) return this.#finishLarge(this.#large);
    if (this.#body) this.#decode(this.#body.concat(), 0, this.#body.length);
    this.#onJson(this.#text, tryParseJson(this.#text), this.#isAscii);
  }

  /** Handles a large message: as text if it may have to be changed and can be parsed quickly, else as bytes. */
  #finishLarge(large: LargeMessage): void {
    const { value } = large;
    if (this.#responseBody) return this.#finishBody(this.#responseBody, large);
    const isResponse = isJsonObject(value) && value.method === undefined;
    const isInterpreted =
      isResponse &&
      ((this.#plan.needsTranslation && requiresInput(value)) ||
        this.#createsTask(value) ||
        (this.#plan.message.method === 'tasks/get' && isWaitingTask(value)));
    const isText = value !== undefined && (!isResponse || isInterpreted || value.error !== undefined);
    const parsed = isText ? large.parse() : undefined;
    if (isText && !parsed && (!isResponse || isInterpreted)) {
      return this.#fail(this.#error('too-large', `sent a message that is too large to be parsed: ${large.size}`));
    }
    if (this.#mode === 'json')
      this.#onJson(parsed?.text ?? '', parsed ? parsed.value : value, false, parsed ? undefined : large);
    else if (parsed) this.#onMessages(parsed.text, parsed.value);
    else if (isResponse) this.#onStreamResponse('', value, large);
    else this.#onMessage('', value);
  }

  /** The response was sent while it arrived, but for the last part of one with a length. */
  #finishBody(body: ResponseBody, large: LargeMessage): void {
    const { value } = large;
    if (!isJsonObject(value) || 'error' in value || !isResponseTo(this.#id, value)) {
      return this.#failUnusable('JSON that is not the response to the call');
    }
    // Its client has the id of the upstream, which is not valid here.
    if (this.#createsTask(value)) return this.#failUnusable('a task that is too large');
    this.#onResponded(value);
    if (this.#isClientDisconnected) return;
    const { parts, free } = large.take(this.#response.idText);
    if (parts.length > 0) body.write(parts, free);
    body.end();
  }

  /** Handles a JSON body; `large` instead of its text if it is relayed as bytes. */
  #onJson(text: string, value: unknown, isAscii: boolean, large?: LargeMessage): void {
    if (!isJsonObject(value)) return this.#failUnusable('text that is not a JSON object');
    if (this.#session?.sessionId !== undefined && isJsonObject(value.error)) {
      const { code } = value.error;
      if (isSessionNotFound(this.#status, typeof code === 'number' ? code : undefined)) return this.#resend();
    }
    if (!isResponseTo(this.#id, value)) return this.#failUnusable('JSON that is not the response to the call');
    if (large) this.#succeedLarge(large, value);
    else this.#succeed(text, value, isAscii);
  }

  /** The body is not the response. An error status is more informative than the body. */
  #failUnusable(body: string): void {
    const [kind, what]: [UpstreamError['kind'], string] =
      this.#status < 300 ? ['invalid', body] : ['http', `HTTP ${this.#status}${credentialsHint(this.#status)}`];
    this.#fail(this.#error(kind, `answered with ${what}`));
  }

  /** `isAscii`: the text is known to be ASCII. */
  #succeed(text: string, value: JsonObject, isAscii = false): void {
    if (mayCreateTask(value) && this.#createsTask(value)) return this.#onTaskCreated(text, value);
    const response = this.#response;
    // An adapter may continue the call in its session, and a stream may have to end requests of the upstream before.
    const isFirst = this.#plan.rewriter !== undefined || response.isStreaming;
    if (isFirst) this.#onResponded(value);
    if (!this.#isClientDisconnected) sendResponse(response, this.#plan, text, value, this.#status, isAscii);
    // The client need not wait for what is recorded about the call.
    if (!isFirst) this.#onResponded(value);
  }

  #succeedLarge(large: LargeMessage, value: JsonObject): void {
    this.#onResponded(value);
    if (!this.#isClientDisconnected) sendLargeResponse(this.#response, this.#plan, large, value, this.#status);
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
    const [plan, response, requestId] = [this.#plan, this.#response, this.#id];
    // Before the session is released: the task keeps it open.
    tasks.onCreated({
      plan,
      session,
      requestId,
      text,
      value,
      response,
      isClientDisconnected: this.#isClientDisconnected,
    });
    this.#settle(true);
    if (upstream.health.kind !== 'up') upstream.observer.onCallSucceeded();
  }

  #onResponded(value: JsonObject): void {
    const { upstream, forward, namespace, observer } = this.#plan;
    this.#settle(true);
    if (upstream.health.kind !== 'up') upstream.observer.onCallSucceeded();
    if (forward !== undefined && namespace !== undefined) {
      this.#context.resourceLinks.record(namespace, forward, value);
    }
    observer.responded(value);
    // Between eras, the message may be sent again.
    if (this.#request?.isSent && !this.#plan.needsTranslation) this.#plan.message.bytes?.free();
  }

  onEvent({ data, id, retry }: ServerSentEvent): void {
    if (id !== undefined) this.#eventId = id;
    if (retry !== undefined) this.#retry = retry;
    // A stream may begin with an event that only carries an id to resume from.
    if (data === '') return;
    this.activeAt = performance.now();
    this.#resumeSchedule?.onMessage();
    this.#onMessages(data, tryParseJson(data));
  }

  onLargeData(bytes: Buffer): void {
    this.activeAt = performance.now();
    this.#writeLarge(bytes);
  }

  onLargeEvent({ id, retry }: Omit<ServerSentEvent, 'data'>): void {
    if (id !== undefined) this.#eventId = id;
    if (retry !== undefined) this.#retry = retry;
    this.#resumeSchedule?.onMessage();
    const large = this.#large;
    this.#large = undefined;
    if (large) this.#finishLarge(large);
  }

  #onMessages(data: string, value: unknown): void {
    if (!Array.isArray(value)) return this.#onMessage(data, value);
    // Version 2025-03-26 allows arrays of messages.
    let index = 0;
    for (const { start, end } of elements(data)) {
      // A copy: a stream may store the message, which must not retain the whole array.
      if (this.#mode === 'stream') this.#onMessage(detach(data.slice(start, end)), value[index++]);
    }
  }

  onEventError(error: Error): void {
    this.#fail(this.#error('too-large', error.message));
  }

  onSessionMessage(data: string, value: JsonObject): boolean {
    this.activeAt = performance.now();
    if (value.method !== undefined) this.#onMessage(data, value);
    return !this.#blocked;
  }

  #onMessage(sent: string, value: unknown): void {
    if (!isJsonObject(value)) return this.#fail(this.#error('invalid', 'sent an event that is not a JSON-RPC message'));
    const { messages } = this.#plan;
    const data = messages ? messages.toClient(sent, value) : sent;
    if (data === undefined) return;
    const { method } = value;
    if (method === undefined) return this.#onStreamResponse(data, value);
    if (typeof method !== 'string')
      return this.#fail(this.#error('invalid', 'sent a message whose method is not a string'));
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
        if (LIST_CHANGED_METHODS.has(method)) return this.#plan.upstream.observer.onListsChanged();
        // A modern client gets only what relates to its request (2026-07-28, "Receiving Messages").
        if (!this.#plan.needsTranslation || this.#plan.era === 'legacy') this.#notify(data);
    }
  }

  #onStreamResponse(data: string, value: JsonObject, large?: LargeMessage): void {
    // Responses to other requests are ignored.
    if (!isResponseTo(this.#id, value)) return;
    this.#decoder?.stop();
    const request = this.#request;
    this.#lingerTimer = setTimeout(() => request?.abort(), LINGER_MS).unref();
    if (large) this.#succeedLarge(large, value);
    else this.#succeed(data, value);
  }

  /** Sends the client a notification. */
  #notify(data: string): void {
    if (this.#isClientDisconnected || !this.#plan.streams || this.#responseBody) return;
    if (!this.#response.isStreaming) this.#response.beginStream();
    if (!this.#response.sendEvent(data)) this.#block();
  }

  /** Pauses the upstream until the client has read what was sent. */
  #block(): void {
    if (this.#blocked) return;
    this.#blocked = true;
    this.#response.onDrain(() => {
      this.#blocked = false;
      // First, since the call may end with the rest of its response and then has no session. It may block the call again.
      this.#session?.bridge?.resume?.();
      if (!this.#blocked) this.#request?.resume();
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
    const sent = `"${this.#id}"`;
    const at = data.indexOf(sent);
    if (at === -1 || at !== data.lastIndexOf(sent) || data.includes('\\')) return withParam(data, 'progressToken', own);
    return data.slice(0, at) + own + data.slice(at + sent.length);
  }

  #wantsLog({ params }: JsonObject): boolean {
    const { era, session, message } = this.#plan;
    const minimumLevel = era === 'modern' ? requestedLevel(message) : (session?.logLevel ?? MINIMUM_LEVEL);
    return minimumLevel !== undefined && reachesLevel(params, minimumLevel);
  }

  /** Relays a request of the upstream to the client whose call caused it (mcp 4 and 5). */
  #onServerRequest(data: string, value: JsonObject): void {
    this.#serverRequests ??= this.#createServerRequests();
    this.#serverRequests.handle(data, value, this.#isClientDisconnected || this.#plan.session?.hasEnded === true);
  }

  #createServerRequests(): CallServerRequests {
    const source: ServerRequestSource = {
      onRejected: (method, params) => this.#plan.rewriter?.onRejected(method, params),
      post: (text) => this.#post(text),
      fail: (error) => this.#fail(error),
    };
    return new CallServerRequests(this.#relayedRequests(source), source, () =>
      this.#fail(this.#error('invalid', 'keeps sending requests the client does not support')),
    );
  }

  /** Requests are relayed on the call's own stream, or by suspending the call. Undefined if neither is possible. */
  #relayedRequests(source: ServerRequestSource): ServerRequests | undefined {
    const { session, streams, era, serverRequests } = this.#plan;
    if (serverRequests) return serverRequests(source);
    const isLegacy = era === 'legacy' && this.#session?.era === 'legacy';
    if (!session || !streams || !isLegacy) return undefined;
    const channel = () => session.channel();
    return new RelayedServerRequests({ channel, send: (text) => this.#notify(text), post: source.post });
  }

  matches(session: string, idText: string): boolean {
    return this.#plan.session?.id === session && this.#response.idText === idText;
  }

  hasProgressToken(token: unknown): boolean {
    return this.#plan.progressToken !== undefined && this.#id === token;
  }

  usesSession(session: UpstreamSession): boolean {
    return this.#session === session;
  }

  /** Continues the call for a retry of the client, which gets the response in the form of this rewriter. */
  continueWith(retry: CallRequest, rewriter: ResponseRewriter): void {
    this.#plan = { ...this.#plan, ...retry, rewriter, progressToken: progressTokenOf(retry.message) };
  }

  cancel({ text }: NotificationMessage): void {
    if (this.#mode === 'done') return;
    this.#plan.onAbandoned?.();
    this.#plan.observer.canceled(CLIENT_CANCELED);
    if (this.#session?.era === 'legacy') {
      this.#post(withParam(text, 'requestId', `"${this.#id}"`)).catch(() => undefined);
    }
    this.#settle();
    this.#request?.abort();
    if (!this.#isClientDisconnected) this.#response.endWithoutResponse(this.#plan.streams);
  }

  onSlow(): void {
    if (!this.#isClientDisconnected && !this.#responseBody)
      makeResumable(this.#response, this.#plan.session, this.#plan.streams);
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
    if (this.#mode === 'done') return;
    this.#plan.onAbandoned?.();
    this.#plan.observer.failed('SERVICE_UNAVAILABLE', SHUTTING_DOWN.message, 'aborted');
    this.#postCancellation(SHUTTING_DOWN.message);
    this.#settle();
    this.#request?.abort();
    if (!this.#isClientDisconnected) this.#response.sendError(SHUTTING_DOWN);
  }

  /** True while a slow client blocks the upstream or owes it a response, or the upstream announced a pause. */
  #isIdleAllowed(): boolean {
    if (this.#plan.waitsForTask) return true;
    return this.#blocked || Boolean(this.#serverRequests?.pending) || Boolean(this.#resumeSchedule?.isWaiting);
  }

  #onClientDisconnected(): void {
    this.#isClientDisconnected = true;
    this.#blocked = false;
    if (this.#mode === 'done') return;
    if (this.#plan.era === 'legacy') {
      this.#serverRequests?.failAll();
      this.#request?.resume();
      return;
    }
    this.#plan.onAbandoned?.();
    this.#plan.observer.canceled(CLIENT_DISCONNECTED);
    this.#postCancellation(CLIENT_DISCONNECTED);
    this.#settle();
    this.#request?.abort();
  }

  /** Cancels the call at a legacy upstream. For a modern one, the end of its request is the cancellation. */
  #postCancellation(reason: string): void {
    const session = this.#session;
    if (session?.era !== 'legacy') return;
    const params = `{"requestId":"${this.#id}","reason":"${reason}"}`;
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
  #onStreamEnded(): void {
    const { session, streams } = this.#plan;
    this.#resumeSchedule?.onEnd();
    this.#onStreamFailed(this.#error('dropped', 'ended the event stream before the response'));
    if (this.#mode === 'done' || this.#isClientDisconnected || !streams || this.#serverRequests?.pending) return;
    const pollMs = Math.min(this.#resumeSchedule?.retryMs ?? 0, MAX_POLL_MS);
    if (session && session.protocolVersion >= POLLING_VERSION) this.#response.disconnect(pollMs);
  }

  /** Resumes the stream if the upstream made it resumable. */
  #onStreamFailed(error: UpstreamError): void {
    const session = this.#session;
    if (session?.era !== 'legacy') return this.#fail(error);
    const eventId = this.#eventId === undefined ? undefined : sendableId(this.#eventId);
    if (eventId === undefined) return this.#fail(error);
    this.#resumeSchedule ??= new ResumeSchedule();
    if (this.#resumeSchedule.schedule(error, this.#retry, () => this.#resume(session, eventId))) this.#decoder?.stop();
    else this.#fail(error);
  }

  #resume(session: UpstreamSession, eventId: string): void {
    const { upstream, headers } = this.#plan;
    const resumption = ['Accept', 'text/event-stream', HEADER_LAST_EVENT_ID, eventId];
    this.#resuming = true;
    this.#request = upstream.transport.dispatch(
      { method: 'GET', headers: [...session.identityHeaders, ...headers, ...resumption] },
      this,
    );
  }

  #onResumed(headers: ResponseHeaders): void {
    this.#resuming = false;
    this.#large = undefined;
    if (this.#status === 200 && mediaType(headers) === 'text/event-stream') {
      this.#decoder = new EventStreamDecoder(this, this.#context.maxResponseBytes);
      return;
    }
    const error = this.#error('http', `did not resume its event stream (HTTP ${this.#status})`);
    this.#request?.abort();
    if (isInconclusive(this.#status)) this.#onStreamFailed(error);
    else this.#fail(error);
  }

  #fail(error: unknown): void {
    if (this.#mode === 'done') return;
    this.#decoder?.stop();
    this.#settle();
    this.#request?.abort();
    const { log } = this.#context;
    const { message, upstream, observer, failure } = this.#plan;
    const reason = `${failure}: ${error instanceof UpstreamError ? error.message : 'internal error'}`;
    if (error instanceof UpstreamError) {
      upstream.observer.onCallFailed(error);
      log.debug('call failed', { method: message.method, error });
      observer.failed(error.isUnavailable ? 'SERVICE_UNAVAILABLE' : 'UNKNOWN', reason, error.kind);
    } else {
      log.error('call failed', { method: message.method, upstream: upstream.transport.address, error });
      observer.failed('UNKNOWN', reason, '_OTHER');
    }
    if (!this.#isClientDisconnected) this.#response.sendError({ code: INTERNAL_ERROR, message: reason });
  }

  #settle(succeeded = false): void {
    this.#serverRequests?.cancelAll();
    this.#mode = 'done';
    this.#resumeSchedule?.cancel();
    this.#release(succeeded);
  }

  /**
   * Releases the session. An exclusive session is discarded if the upstream may still be processing the call, or if
   * messages of the call are still blocked on the session's own stream.
   */
  #release(succeeded = false): void {
    this.#context.calls.remove(this);
    const session = this.#session;
    if (!session) return;
    this.#session = undefined;
    const { sessions } = this.#plan.upstream;
    if (session.leased && (!succeeded || this.#blocked)) sessions.discard(session);
    sessions.release(session, this.activeAt);
  }

  #error(kind: UpstreamError['kind'], what: string): UpstreamError {
    return new UpstreamError(kind, this.#plan.upstream.transport.address, what, { status: this.#status });
  }
}
