import type { JsonObject } from '@sluice/protocol/json/parse';
import { HEADER_LAST_EVENT_ID, POLLING_VERSION } from '@sluice/protocol/mcp/constants';
import { progressTokenRange, withParam } from '@sluice/protocol/mcp/message';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { RequestInSession } from '../../in-flight-calls.ts';
import type { ResponseSink } from '../../response-sink.ts';
import { isSameId, requestIds } from '../request-ids.ts';
import type { ReadRequest, ResponseEnd, RpcResponseHandler } from '../response-handler.ts';
import { ResponseReader } from '../response-reader.ts';
import { postMessage } from '../rpc-request.ts';
import type { UpstreamSession } from '../upstream-sessions.ts';
import { CallMessages } from './call-messages.ts';
import type { CallSpec } from './call-spec.ts';
import type { LargeMessage } from './large-message.ts';
import { LargeRelay } from './large-relay.ts';
import { createsTask, isWaitingTask, type UpstreamResponse } from './response-rewrite.ts';
import { type StreamEnd, StreamResumption } from './stream-resumption.ts';

/** Maximum reconnection delay of a client: shorter than the storage time of its stream, in milliseconds. */
const MAX_POLL_MS = 60_000;

/** How an attempt ends. */
export type AttemptEnd =
  | UpstreamResponse
  /** A large result that was sent while it arrived, but for its end. */
  | { readonly kind: 'relayed'; readonly value: JsonObject; readonly relay: LargeRelay }
  /** `session-unknown`: the upstream did not process the request. `internal-error`: perhaps after another end. */
  | { readonly kind: 'session-unknown'; readonly error: UpstreamError }
  | { readonly kind: 'failed' | 'internal-error'; readonly error: unknown };

/** The call that is attempted. */
export interface AttemptedCall {
  /** Time of the last activity of the upstream. */
  activeAt: number;
  /** A retry of the client replaces parts of it. */
  readonly spec: CallSpec;
  /** Undefined once the client has disconnected. */
  readonly sink: ResponseSink | undefined;
  onEnd(end: AttemptEnd): void;
}

/**
 * One request of a call in a session of the upstream, with its response: sends the client's own bytes with the edits of the
 * spec. The session stays open until the attempt is ended.
 */
export class HttpAttempt implements RpcResponseHandler, ReadRequest, RequestInSession {
  /** Also the progress token upstream. */
  readonly id: number = requestIds.next();
  readonly name: string;
  readonly sessionId: string | undefined;
  readonly maxBytes: number;
  readonly session: UpstreamSession;
  readonly #call: AttemptedCall;
  /** Reads the response to the request, or to the latest one that resumes its stream. */
  #reader: ResponseReader;
  /** The client reads too slowly: the upstream is not read. */
  isBlocked = false;
  /** The client gets no more messages. */
  #isCanceled = false;
  #messages: CallMessages | undefined = undefined;
  #resumption: StreamResumption | undefined = undefined;
  #largeRelay: LargeRelay | undefined = undefined;

  constructor(call: AttemptedCall, session: UpstreamSession, maxBytes: number) {
    this.#call = call;
    this.session = session;
    this.name = call.spec.message.method;
    this.sessionId = session.sessionId;
    this.maxBytes = maxBytes;
    this.#reader = new ResponseReader(call.spec.upstream.transport.address, this, this);
    session.use.inFlight++;
  }

  send(): void {
    const { upstream, edits } = this.#call.spec;
    this.#reader.send(upstream.transport, edits.request(this.id, this.session.headers));
  }

  /** True if the request was sent completely, once the response is complete. */
  get isSent(): boolean {
    return this.#reader.isSent;
  }

  /** Number of requests of the upstream that wait for a response of the client. */
  get pending(): number {
    return this.#messages?.pending ?? 0;
  }

  /** The upstream may be silent: the client is slow or owes a response, a pause was announced, or a task is awaited. */
  get mayBeIdle(): boolean {
    const { task } = this.#call.spec;
    return this.isBlocked || this.pending > 0 || this.#resumption?.isWaiting === true || task?.isAwaited === true;
  }

  onActivity(): void {
    this.#call.activeAt = performance.now();
  }

  cork(isCorked: boolean): void {
    this.#call.sink?.cork(isCorked);
  }

  hasProgressToken(token: string | undefined): boolean {
    return isSameId(this.id, token) && progressTokenRange(this.#call.spec.message) !== undefined;
  }

  onProgress(text: string): void {
    this.onActivity();
    // That stream cannot be paused for this client: it misses progress until it has read the buffered messages.
    if (!this.isBlocked) this.#ownMessages().onProgress(text);
  }

  onMessage(text: string, value: JsonObject): boolean {
    this.onActivity();
    this.#resumption?.onMessage();
    this.#ownMessages().onMessage(text, value);
    return !this.isBlocked;
  }

  #ownMessages(): CallMessages {
    this.#messages ??= new CallMessages({
      call: this.#call,
      requestId: this.id,
      session: this.session,
      notify: (text) => this.#notify(text),
      post: (text) => this.#post(text),
      fail: (error) => this.#fail(error),
      reject: (what) => this.#fail(this.#error('invalid', what)),
    });
    return this.#messages;
  }

  /** Sends the client a notification, or a request of the upstream. */
  #notify(text: string): void {
    const { sink } = this.#call;
    if (!sink?.client.accepts.sse || this.#isCanceled || this.#largeRelay?.hasBegun) return;
    if (!sink.sendMessage(text)) this.#block();
  }

  /** Pauses the upstream until the client has read what was sent. */
  #block(): void {
    if (this.isBlocked) return;
    this.isBlocked = true;
    this.#call.sink?.onDrain(() => {
      this.isBlocked = false;
      // First, since the call may end with the rest of its response. It may block the call again.
      this.session.bridge?.resume?.();
      if (!this.isBlocked) this.#reader.resume();
    });
  }

  /** Sends the upstream a message in the session; resolves once it was accepted. */
  async #post(message: string): Promise<void> {
    const { upstream, edits, messages } = this.#call.spec;
    const sent = messages?.toUpstream(message) ?? message;
    await postMessage(upstream.transport, [...this.session.identityHeaders, ...edits.headers], sent);
    this.onActivity();
  }

  requiresText(value: JsonObject): boolean {
    const { spec } = this.#call;
    const isWaiting = spec.message.method === 'tasks/get' && isWaitingTask(value);
    return isWaiting || createsTask(spec, this.session.era, value) || spec.rewriter?.needsText?.(value) === true;
  }

  /** Between eras, and if it begins an event stream, a large result is sent when it is complete. */
  onLargePart(large: LargeMessage, isFirst: boolean): void {
    const { isStream, contentLength, status } = this.#reader;
    const { sink, spec } = this.#call;
    if (sink && !this.#largeRelay && !isStream && status < 300 && !spec.rewriter) {
      this.#largeRelay = new LargeRelay(large, { id: this.id, contentLength, maxDepth: this.maxBytes }, sink);
    }
    const relay = this.#largeRelay;
    if (sink && relay?.hasBegun === false) relay.begin(isFirst);
    if (!relay?.hasBegun) return;
    const { problem } = relay;
    if (problem) this.#fail(this.#error(problem.kind, problem.what));
    else if (!sink) relay.drop();
    else if (!relay.sendPart()) this.#block();
  }

  onLargeEnd(): boolean {
    const relay = this.#largeRelay;
    if (!relay?.hasBegun) return false;
    const { result: value } = relay;
    const isTask = value !== undefined && createsTask(this.#call.spec, this.session.era, value);
    // The client of a task has the id of the upstream, which is not valid here.
    const what = isTask ? 'a task that is too large' : 'JSON that is not the response to the call';
    if (!value || isTask) this.#fail(this.#error('invalid', `answered with ${what}`));
    else this.#call.onEnd({ kind: 'relayed', value, relay });
    return true;
  }

  onResponse(content: string | LargeMessage, value: JsonObject, isAscii: boolean): void {
    const { isStream, session: verdict, status } = this.#reader;
    const { messages, upstream } = this.#call.spec;
    if (typeof content === 'string') {
      const text = (isStream && messages?.toClient(content, value)) || content;
      this.#call.onEnd({ kind: 'response', text, value, status, isAscii });
    } else this.#call.onEnd({ kind: 'large', large: content, value, status });
    // The next request of this client is sent in another session.
    if (verdict !== 'known') upstream.sessions.check(this.session, verdict);
  }

  onEnd(end: ResponseEnd): void {
    if (end.kind === 'done') return;
    if (end.kind === 'interrupted' || this.#resumption?.isInterrupted) return this.#onInterrupted(end);
    // An upstream that has sent a request has processed the call.
    if (end.kind === 'session-unknown' && !this.#messages?.hasRequests) {
      return this.#call.onEnd({ kind: 'session-unknown', error: end.error });
    }
    const { session: verdict } = this.#reader;
    this.#fail(end.error);
    this.#call.spec.upstream.sessions.check(this.session, verdict);
  }

  onCursor(id: string | undefined, retryMs: number | undefined): void {
    this.#resumption ??= new StreamResumption((eventId) => this.#resume(eventId));
    this.#resumption.onCursor(id, retryMs);
  }

  /** Resumes the stream if the upstream made it resumable. */
  #onInterrupted(end: StreamEnd): void {
    const resumption = this.session.era === 'legacy' ? this.#resumption : undefined;
    const error = resumption ? resumption.next(end) : end.error;
    if (error) return this.#fail(error);
    if (end.kind !== 'interrupted' || !end.isRegular || this.pending > 0) return;
    // The upstream is to be polled for the rest, and so is the service: the client needs no connection meanwhile.
    const { sink } = this.#call;
    const { session, accepts } = sink?.client ?? {};
    if (!session || !accepts?.sse || session.protocolVersion < POLLING_VERSION) return;
    sink?.disconnect(Math.min(resumption?.retryMs ?? 0, MAX_POLL_MS));
  }

  #resume(eventId: string): void {
    const { upstream, edits } = this.#call.spec;
    const { id, session, sessionId, maxBytes } = this;
    const { transport } = upstream;
    const resumption = ['Accept', 'text/event-stream', HEADER_LAST_EVENT_ID, eventId];
    const read = { id, name: 'GET', sessionId, maxBytes, requiresStream: true };
    this.#reader = new ResponseReader(transport.address, read, this);
    this.#reader.send(transport, {
      method: 'GET',
      headers: [...session.identityHeaders, ...edits.headers, ...resumption],
    });
  }

  onInternalError(error: unknown): void {
    this.#call.onEnd({ kind: 'internal-error', error });
  }

  /** The client has canceled the call by this notification, of which the legacy upstream is informed. */
  cancel(text: string): void {
    this.#post(withParam(text, 'requestId', String(this.id))).catch(() => undefined);
    this.#messages?.cancelAll();
    this.#isCanceled = true;
  }

  /** The legacy client has disconnected: the rest of the response is read nevertheless. */
  onClientDisconnected(): void {
    this.isBlocked = false;
    this.#messages?.failAll();
    this.#reader.resume();
  }

  /** Nobody waits for the response any more. For a modern upstream, the end of its request is the cancellation. */
  abandon(reason: string): void {
    const { session } = this;
    if (session.era !== 'legacy') return;
    const { sessions } = this.#call.spec.upstream;
    const params = `{"requestId":${this.id},"reason":"${reason}"}`;
    // The session stays open until the upstream has the cancellation.
    session.use.inFlight++;
    this.#post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`)
      .catch(() => undefined)
      .finally(() => sessions.release(session, this.#call.activeAt));
  }

  /** Ends the attempt and releases the session; `isSuccess`: the response has arrived. */
  end(isSuccess: boolean): void {
    const { session } = this;
    const { sessions } = this.#call.spec.upstream;
    this.#messages?.cancelAll();
    this.#resumption?.cancel();
    requestIds.release(this.id);
    // The upstream may still be processing the request, or messages of it may be blocked on the session's own stream.
    if (session.isExclusive && (!isSuccess || this.isBlocked)) sessions.discard(session);
    sessions.release(session, this.#call.activeAt);
    if (!isSuccess) this.#reader.abort();
  }

  #fail(error: unknown): void {
    this.#call.onEnd({ kind: 'failed', error });
  }

  #error(kind: UpstreamError['kind'], what: string): UpstreamError {
    return new UpstreamError(kind, this.#call.spec.upstream.transport.address, what, { status: this.#reader.status });
  }
}
