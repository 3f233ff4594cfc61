import { applyEdits, type Edit } from '@sluice/protocol/json/edit';
import { isJsonObject, type JsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';
import { elements } from '@sluice/protocol/json/scan';
import { LEAST_LEVEL, reachesLevel, requestedLevel } from '@sluice/protocol/mcp/capabilities';
import {
  HEADER_LAST_EVENT_ID,
  INTERNAL_ERROR,
  LIST_CHANGED_METHODS,
  METHOD_NOT_FOUND,
  MODERN_ERROR_CODES,
  POLLING_VERSION,
} from '@sluice/protocol/mcp/constants';
import {
  type EventSink,
  EventStreamDecoder,
  MAX_RETRY_MS,
  type ServerSentEvent,
  sendableId,
} from '@sluice/protocol/mcp/event-stream';
import { type NotificationMessage, withId, withParam } from '@sluice/protocol/mcp/message';
import type { ResponseHandler, ResponseHeaders, UpstreamCall } from '../../../http/client/client.ts';
import { UpstreamError } from '../../../http/client/errors.ts';
import { ChunkBuffer } from '../../../http/request-body.ts';
import { detached } from '../../../registry/stored.ts';
import { type CallResponse, makeResumable } from '../../downstream.ts';
import { isSessionNotFound } from '../client.ts';
import { contentType, isInconclusive, postMessage } from '../rpc-request.ts';
import type { Upstream, UpstreamSession } from '../upstream.ts';
import { CLIENT_CANCELLED, CLIENT_LEFT, type InFlightCall, passProgress } from './in-flight.ts';
import type { AnswerRewriting, CallAttempt, CallParts, CallPlan } from './relay.ts';
import { progressTokenOf } from './request-rewrite.ts';
import {
  type ServerRequestSink,
  type ServerRequests,
  UpstreamRequests,
  UpstreamServerRequests,
} from './server-requests.ts';

/** When an upstream that has ended its stream is asked for the rest, where it does not say when; and how often in vain. */
const RETRY_MS = 1_000;
const MIN_RETRY_MS = 100;
const MAX_FAILURES = 5;

/** Failures that another attempt may not meet again. */
const PASSING: ReadonlySet<UpstreamError['kind']> = new Set(['dropped', 'refused', 'timeout', 'http']);

/**
 * Where the event stream of one call can be taken up again, and when that is tried (2025-11-25, "Resumability and
 * Redelivery"): the upstream says both with its events. Made for calls whose upstream says so, which few do.
 */
export class ResumePoint {
  #eventId: string | undefined = undefined;
  #retryMs = RETRY_MS;
  /** Attempts since the last message, or since the upstream last ended its stream in good order. */
  #failures = 0;
  #timer: NodeJS.Timeout | undefined = undefined;
  /** The upstream has been asked for the rest since its last message. */
  #asked = false;

  /** Milliseconds after which the upstream wants to be asked, when it has ended its stream. */
  get retryMs(): number {
    return this.#retryMs;
  }

  /** True before the time that the upstream has named: its silence is what it announced. */
  get early(): boolean {
    return this.#timer !== undefined && !this.#asked;
  }

  /** Takes in what an event says: its id, and `retry`. */
  noted(id: string | undefined, retry: number | undefined): void {
    if (id !== undefined) this.#eventId = sendableId(id);
    if (retry !== undefined) this.#retryMs = Math.min(Math.max(retry, MIN_RETRY_MS), MAX_RETRY_MS);
  }

  /** A message has come. */
  delivered(): void {
    this.#failures = 0;
    this.#asked = false;
  }

  /** The upstream has ended its stream in good order: that is no failure. */
  ended(): void {
    this.#failures = 0;
  }

  /** Has `ask` called with the event id when it is time. False when there is no point in it, after this error. */
  schedule(error: UpstreamError, ask: (eventId: string) => void): boolean {
    const eventId = this.#eventId;
    if (eventId === undefined || !PASSING.has(error.kind) || this.#failures >= MAX_FAILURES) return false;
    const delay = Math.min(this.#retryMs * 2 ** this.#failures++, MAX_RETRY_MS);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#asked = true;
      ask(eventId);
    }, delay).unref();
    return true;
  }

  /** Nobody is asked any more. */
  cancel(): void {
    clearTimeout(this.#timer);
  }
}

/** How long an upstream may keep a stream open after the answer, so that its connection can be used again. */
const LINGER_MS = 1_000;

/** The longest that our client is sent away for: not as long as its own stream is kept. */
const MAX_AWAY_MS = 60_000;

type Mode = 'waiting' | 'json' | 'stream' | 'over';

/**
 * One call on its way: sends the client's own bytes, with what must differ spliced in, and hands the answer back the
 * same way. The hot path: one object per call is both the transport's handler and the event stream's sink, and
 * nothing is a promise unless a session has to be opened first.
 */
export class RelayedCall implements ResponseHandler, EventSink, InFlightCall {
  readonly startedAt: number;
  activeAt: number;
  slot = -1;
  lasting = false;
  readonly #parts: CallParts;
  #plan: CallPlan;
  readonly #answer: CallResponse;
  #mode: Mode = 'waiting';
  #link: UpstreamSession | undefined = undefined;
  #call: UpstreamCall | undefined = undefined;
  /** Our id of the request upstream, which also serves as its progress token. */
  #id = 0;
  #status = 0;
  #body = new ChunkBuffer();
  #decoder: EventStreamDecoder | undefined = undefined;
  #blocked = false;
  #renewed = false;
  #clientGone = false;
  #linger: NodeJS.Timeout | undefined = undefined;
  /** What the upstream has asked on this call. */
  #requests: UpstreamRequests | undefined = undefined;
  /** Where the upstream's stream can be taken up again, when it said so. */
  #resumePoint: ResumePoint | undefined = undefined;
  /** The upstream was asked for the rest of its stream and has not answered yet. */
  #resuming = false;

  /** `startedAt`: where it is not the first call upstream for its client's, when that one began. */
  constructor(parts: CallParts, plan: CallPlan, answer: CallResponse, startedAt?: number) {
    this.#parts = parts;
    this.#plan = plan;
    this.#answer = answer;
    this.activeAt = parts.calls.now();
    this.startedAt = startedAt ?? this.activeAt;
  }

  start(): void {
    this.#plan.watch?.begin();
    this.#answer.onLeave(() => this.#clientLeft());
    this.#connect();
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.#status = status;
    // That the stream can be taken up again is no sign of life: it has to bring something.
    if (this.#resuming) return this.#resumed(headers);
    this.activeAt = this.#parts.calls.now();
    if (status === 404 && this.#link?.sessionId !== undefined) return this.#renew();
    const type = contentType(headers);
    if (type === 'text/event-stream' && status < 300) {
      this.#mode = 'stream';
      this.#decoder = new EventStreamDecoder(this, this.#parts.maxResponseBytes);
    } else if (type === 'application/json') {
      this.#mode = 'json';
    } else {
      this.#fail(this.#error('http', `answered with HTTP ${status}${type && ` and content type ${type}`}`));
    }
  }

  onData(chunk: Buffer): boolean {
    try {
      return this.#take(chunk);
    } catch (error) {
      this.#broken(error);
      return true;
    }
  }

  #take(chunk: Buffer): boolean {
    if (this.#mode === 'stream') {
      this.#decoder?.write(chunk);
      return !this.#blocked;
    }
    if (this.#mode !== 'json') return true;
    this.activeAt = this.#parts.calls.now();
    if (this.#body.length + chunk.length > this.#parts.maxResponseBytes) {
      this.#fail(this.#error('too-large', `answered with more than ${this.#parts.maxResponseBytes} bytes`));
    } else {
      this.#body.push(chunk);
    }
    return true;
  }

  onEnd(): void {
    clearTimeout(this.#linger);
    try {
      if (this.#mode === 'json') this.#finishJson();
      else if (this.#mode === 'stream') this.#sentAway();
      else this.#fail(this.#error('invalid', `ended without an answer (HTTP ${this.#status})`));
    } catch (error) {
      this.#broken(error);
    }
  }

  /** Something of ours failed over what the upstream sent: that costs this call, and not the service. */
  #broken(error: unknown): void {
    if (this.#mode !== 'over') return this.#fail(error);
    this.#parts.log.error('call failed', { method: this.#plan.message.method, error });
    this.#answer.error({ code: INTERNAL_ERROR, message: `${this.#plan.failure}: internal error` });
  }

  onError(error: UpstreamError): void {
    if (this.#mode === 'stream') this.#interrupted(error);
    else this.#fail(error);
  }

  isFor(session: string, idText: string): boolean {
    return this.#plan.session?.id === session && this.#answer.idText === idText;
  }

  reportsTo(upstream: Upstream, session: string | undefined, token: unknown): boolean {
    const { upstream: own, session: client, progressToken } = this.#plan;
    return own === upstream && client?.id === session && progressToken !== undefined && this.#id === token;
  }

  progressed(data: string, value: JsonObject): void {
    this.activeAt = this.#parts.calls.now();
    // That stream cannot be held up for this client: it does without, until the next one.
    if (!this.#blocked) this.#pass(this.#withClientToken(data, value));
  }

  uses(link: UpstreamSession): boolean {
    return this.#link === link;
  }

  overheard(data: string, value: JsonObject): boolean {
    this.activeAt = this.#parts.calls.now();
    if (value.method !== undefined) this.#message(data, value);
    return !this.#blocked;
  }

  /** The client has sent its request anew and is answered there, with this rewriting: the same call goes on. */
  continueWith(retry: CallAttempt, rewriting: AnswerRewriting): void {
    this.#plan = { ...this.#plan, ...retry, rewriting, progressToken: progressTokenOf(retry.message) };
  }

  cancel({ text }: NotificationMessage): void {
    if (this.#mode === 'over') return;
    this.#plan.watch?.abandoned(CLIENT_CANCELLED);
    if (this.#link?.era === 'legacy') this.#tell(withParam(text, 'requestId', String(this.#id)));
    this.#settle();
    this.#call?.abort();
    if (!this.#clientGone) this.#answer.cancelled(this.#plan.streams);
  }

  onLasting(): void {
    if (!this.#clientGone) makeResumable(this.#answer, this.#plan.session, this.#plan.streams);
  }

  onDeadline(limit: 'silence' | 'total'): void {
    if (limit === 'silence' && this.#excused) {
      this.activeAt = this.#parts.calls.now();
      this.#parts.calls.watch(this);
      return;
    }
    const { silenceMs, totalMs } = this.#parts.calls.limits;
    const what =
      limit === 'silence' ? `sent nothing for ${silenceMs / 1000} s` : `did not finish within ${totalMs / 1000} s`;
    this.#tellCancelled('it took too long');
    this.#fail(this.#error('timeout', what));
  }

  /**
   * True while it is not the upstream that is silent: it is not being read or waits for an answer, since our client is
   * slow, or it has named a time before which it is not to be asked.
   */
  get #excused(): boolean {
    return this.#blocked || Boolean(this.#requests?.open) || Boolean(this.#resumePoint?.early);
  }

  onEvent({ data, id, retry }: ServerSentEvent): void {
    if (id !== undefined || retry !== undefined) {
      this.#resumePoint ??= new ResumePoint();
      this.#resumePoint.noted(id, retry);
    }
    // Streams may begin with an event that carries an id and nothing else, to resume from.
    if (data === '') return;
    this.activeAt = this.#parts.calls.now();
    this.#resumePoint?.delivered();
    const value = tryParseJson(data);
    if (!Array.isArray(value)) return this.#message(data, value);
    // Version 2025-03-26 may answer in arrays of messages.
    let index = 0;
    for (const { start, end } of elements(data)) {
      // A copy: a stream may keep the message, which must not keep all that it came with.
      if (this.#mode === 'stream') this.#message(detached(data.slice(start, end)), value[index++]);
    }
  }

  #message(data: string, value: unknown): void {
    if (!isJsonObject(value)) return this.#fail(this.#error('invalid', 'sent an event that is no JSON-RPC message'));
    const { method } = value;
    if (method === undefined) return this.#finishStream(data, value);
    if (typeof method !== 'string')
      return this.#fail(this.#error('invalid', 'sent a message whose method is no string'));
    if ('id' in value) return this.#request(data, value);
    switch (method) {
      case 'notifications/progress':
        return this.#progress(data, value);
      case 'notifications/message':
        if (this.#wantsLog(value)) this.#pass(data);
        return;
      case 'notifications/cancelled':
        return this.#requests?.takenBack(data);
      default:
        // Our clients are told when the change is here, and they can see it.
        if (LIST_CHANGED_METHODS.has(method)) return this.#plan.upstream.changed();
        // A modern client is promised nothing but what relates to its request (2026-07-28, "Receiving Messages").
        if (!this.#plan.crosses || this.#plan.era === 'legacy') this.#pass(data);
    }
  }

  onEventError(error: Error): void {
    this.#fail(this.#error('too-large', error.message));
  }

  #connect(): void {
    // Opening a session counts: a client waits for it as for the call.
    this.#parts.calls.watch(this);
    const link = this.#plan.link();
    if (!(link instanceof Promise)) return this.#send(link);
    link.then(
      (opened) => this.#send(opened),
      (error: unknown) => this.#fail(error),
    );
  }

  #send(link: UpstreamSession): void {
    // The client may have left, and the deadline passed, while the session was being opened.
    if (this.#mode === 'over') {
      link.taken = false;
      return;
    }
    const { upstream, message, edits, progressToken, headers } = this.#plan;
    this.#link = link;
    link.active++;
    this.#id = upstream.links.nextId();
    const id = String(this.#id);
    const all: Edit[] = [{ start: message.idRange.start, end: message.idRange.end, text: id }, ...edits];
    if (progressToken) all.push({ ...progressToken, text: id });
    this.#call = upstream.transport.dispatch(
      { method: 'POST', headers: [...link.headers, ...headers], body: applyEdits(message.text, all) },
      this,
    );
  }

  /** The upstream no longer knows the session and has not looked at the call: once, it is sent again on a new one. */
  #renew(): void {
    const link = this.#link;
    // One that has asked something has looked at the call.
    if (this.#renewed || this.#requests || !link)
      return this.#fail(this.#error('http', `answered with HTTP ${this.#status}`));
    this.#renewed = true;
    this.#release();
    this.#call?.abort();
    this.#mode = 'waiting';
    this.#body = new ChunkBuffer();
    this.#plan.upstream.links.forget(link);
    this.#connect();
  }

  #finishJson(): void {
    const text = this.#body.take().toString('utf8');
    const value = tryParseJson(text);
    if (!isJsonObject(value)) return this.#unusable('text that is not a JSON object');
    if (this.#link?.sessionId !== undefined && isJsonObject(value.error)) {
      const { code } = value.error;
      if (isSessionNotFound(this.#status, typeof code === 'number' ? code : undefined)) return this.#renew();
    }
    if (!this.#answers(value)) return this.#unusable('JSON that is no answer to the call');
    this.#succeed(value);
    this.#finish(text, value);
  }

  /** The body is nothing to hand on: with an error status, that status says more than the body. */
  #unusable(body: string): void {
    const [kind, what]: [UpstreamError['kind'], string] =
      this.#status < 300 ? ['invalid', body] : ['http', `HTTP ${this.#status}`];
    this.#fail(this.#error(kind, `answered with ${what}`));
  }

  #finishStream(data: string, value: JsonObject): void {
    // A response to something else on this stream is nobody's.
    if (!this.#answers(value)) return;
    this.#decoder?.stop();
    const call = this.#call;
    this.#linger = setTimeout(() => call?.abort(), LINGER_MS).unref();
    this.#succeed(value);
    this.#finish(data, value);
  }

  /** Hands the response on, as the client is to have it. */
  #finish(text: string, value: JsonObject): void {
    this.#plan.watch?.answered(value);
    if (this.#clientGone) return;
    const { rewriting, json } = this.#plan;
    const answer = withId(text, this.#answer.idText);
    const rewritten = rewriting?.rewrite(answer, value);
    const told = rewritten?.value ?? value;
    this.#answer.response(rewritten?.text ?? answer, !('result' in told), this.#statusFor(told), json);
  }

  #succeed(value: JsonObject): void {
    this.#settle(true);
    this.#plan.upstream.succeeded();
    const { forward, namespace } = this.#plan;
    if (forward !== undefined && namespace !== undefined) {
      this.#parts.linkedResources.learn(namespace, forward, value);
    }
  }

  /** Hands a notification on. */
  #pass(data: string): void {
    if (this.#clientGone || !this.#plan.streams) return;
    if (!this.#answer.streaming) this.#answer.beginStream();
    if (this.#answer.event(data) || this.#blocked) return;
    this.#blocked = true;
    this.#answer.onDrain(() => {
      this.#blocked = false;
      this.#call?.resume();
      this.#link?.channel?.resume?.();
    });
  }

  /** Progress goes to the call whose token it carries, which may be another one's; and to nobody who asked for none. */
  #progress(data: string, value: JsonObject): void {
    const { upstream, session, progressToken } = this.#plan;
    const token = isJsonObject(value.params) ? value.params.progressToken : undefined;
    if (token !== this.#id) passProgress(this.#parts.calls, upstream, session?.id, data, value);
    else if (progressToken) this.#pass(this.#withClientToken(data, value));
  }

  /** Whether the client wants to see this log message. */
  #wantsLog({ params }: JsonObject): boolean {
    const { era, session, message } = this.#plan;
    const least =
      era === 'modern'
        ? requestedLevel(message)
        : ((session && this.#parts.sessions.state(session)?.logLevel) ?? LEAST_LEVEL);
    return least !== undefined && reachesLevel(params, least);
  }

  /** A request of the upstream's goes to the client whose call caused it (mcp 4 and 5). */
  #request(data: string, value: JsonObject): void {
    const { session } = this.#plan;
    this.#requests ??= this.#openRequests();
    this.#requests.take(
      data,
      value,
      this.#clientGone || (session !== undefined && this.#parts.sessions.ended(session)),
    );
  }

  #openRequests(): UpstreamRequests {
    const route = {
      deliver: (text: string) => this.#deliver(text),
      fail: (error: unknown) => this.#fail(error),
      refused: (method: string, params: JsonValue | undefined) => this.#plan.rewriting?.refused(method, params),
      tooMany: () => this.#fail(this.#error('invalid', 'goes on asking a client that cannot be asked')),
    };
    return new UpstreamRequests(this.#questions(route), route);
  }

  /** How this client can be asked: on the call's own stream, or by having its call parked. Undefined when it cannot. */
  #questions(sink: ServerRequestSink): ServerRequests | undefined {
    const { session, streams, era, questions } = this.#plan;
    if (questions) return questions(sink);
    const legacy = era === 'legacy' && this.#link?.era === 'legacy';
    if (!session || !streams || !legacy) return undefined;
    const live = () => this.#parts.lives.of(session.id);
    return new UpstreamServerRequests({ live, send: (text) => this.#pass(text), deliver: sink.deliver });
  }

  /** Puts the client's own progress token in place of ours. */
  #withClientToken(data: string, value: JsonObject): string {
    const { message, progressToken } = this.#plan;
    if (!progressToken || !isJsonObject(value.params) || value.params.progressToken !== this.#id) return data;
    return withParam(data, 'progressToken', message.text.slice(progressToken.start, progressToken.end));
  }

  /** True for the response to our request; an error without an id is the upstream not having understood it. */
  #answers(value: JsonObject): boolean {
    if ('result' in value) return value.id === this.#id;
    return isJsonObject(value.error) && (value.id === this.#id || value.id === null || value.id === undefined);
  }

  /** JSON-RPC errors have HTTP 200 in the legacy era; in the modern one some have a status of their own (mcp 1). */
  #statusFor(value: JsonObject): number {
    if (!isJsonObject(value.error) || this.#plan.era !== 'modern') return 200;
    const { code } = value.error;
    if (code === METHOD_NOT_FOUND) return 404;
    if (typeof code === 'number' && MODERN_ERROR_CODES.has(code)) return 400;
    return this.#status;
  }

  #clientLeft(): void {
    this.#clientGone = true;
    this.#blocked = false;
    if (this.#plan.era === 'legacy') {
      this.#requests?.abandonAll();
      this.#call?.resume();
      return;
    }
    this.#plan.watch?.abandoned(CLIENT_LEFT);
    this.#tellCancelled(CLIENT_LEFT);
    this.#settle();
    this.#call?.abort();
  }

  /** Nobody waits for the answer. A modern upstream is told by the end of its request. */
  #tellCancelled(reason: string): void {
    const link = this.#link;
    if (link?.era !== 'legacy') return;
    const params = `{"requestId":${this.#id},"reason":"${reason}"}`;
    // The session is not ended before the upstream has been told.
    link.active++;
    this.#deliver(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`)
      .catch(() => undefined)
      .finally(() => this.#plan.upstream.links.release(link, this.activeAt));
  }

  /** Sends the upstream a message of its own that may be lost, the way the call went. */
  #tell(message: string): void {
    this.#deliver(message).catch(() => undefined);
  }

  /** Sends the upstream a message of its own; resolves when it has taken it. */
  async #deliver(message: string): Promise<void> {
    const { upstream, headers } = this.#plan;
    await postMessage(upstream.transport, [...(this.#link?.identity ?? []), ...headers], message);
    this.activeAt = this.#parts.calls.now();
  }

  /** The upstream has ended its stream, to be asked for the rest: so is the client, which need not wait on a connection. */
  #sentAway(): void {
    const { session, streams } = this.#plan;
    this.#resumePoint?.ended();
    this.#interrupted(this.#error('dropped', 'ended the event stream before the answer'));
    if (this.#mode === 'over' || this.#clientGone || !streams || this.#requests?.open) return;
    const awayMs = Math.min(this.#resumePoint?.retryMs ?? 0, MAX_AWAY_MS);
    if (session && session.protocolVersion >= POLLING_VERSION) this.#answer.poll(awayMs);
  }

  /** The upstream's stream broke off: the rest is asked for, where the upstream has said how. */
  #interrupted(error: UpstreamError): void {
    const link = this.#link;
    if (link?.era !== 'legacy') return this.#fail(error);
    if (!this.#resumePoint?.schedule(error, (eventId) => this.#resume(link, eventId))) return this.#fail(error);
    this.#decoder?.stop();
  }

  #resume(link: UpstreamSession, eventId: string): void {
    const { upstream, headers } = this.#plan;
    const resumption = ['Accept', 'text/event-stream', HEADER_LAST_EVENT_ID, eventId];
    this.#resuming = true;
    this.#call = upstream.transport.dispatch(
      { method: 'GET', headers: [...link.identity, ...headers, ...resumption] },
      this,
    );
  }

  #resumed(headers: ResponseHeaders): void {
    this.#resuming = false;
    if (this.#status === 200 && contentType(headers) === 'text/event-stream') {
      this.#decoder = new EventStreamDecoder(this, this.#parts.maxResponseBytes);
      return;
    }
    const error = this.#error('http', `did not take its event stream up again (HTTP ${this.#status})`);
    this.#call?.abort();
    if (isInconclusive(this.#status)) this.#interrupted(error);
    else this.#fail(error);
  }

  #fail(error: unknown): void {
    if (this.#mode === 'over') return;
    this.#decoder?.stop();
    this.#settle();
    this.#call?.abort();
    const { log } = this.#parts;
    const { message, upstream } = this.#plan;
    if (error instanceof UpstreamError) {
      upstream.failed(error);
      log.debug('call failed', { method: message.method, error });
    } else {
      log.error('call failed', { method: message.method, upstream: upstream.transport.address, error });
    }
    const reason = `${this.#plan.failure}: ${error instanceof UpstreamError ? error.message : 'internal error'}`;
    this.#plan.watch?.failed(error, reason);
    if (!this.#clientGone) this.#answer.error({ code: INTERNAL_ERROR, message: reason });
  }

  #settle(answered = false): void {
    this.#requests?.withdrawAll();
    this.#mode = 'over';
    this.#resumePoint?.cancel();
    this.#release(answered);
  }

  /**
   * A session that a call had for itself is not another's when the upstream may still be at work on that call, or when
   * messages of that call are held back on the session's own stream.
   */
  #release(answered = false): void {
    this.#parts.calls.unwatch(this);
    const link = this.#link;
    if (!link) return;
    this.#link = undefined;
    const { links } = this.#plan.upstream;
    if (link.taken && (!answered || this.#blocked)) links.forget(link);
    links.release(link, this.activeAt);
  }

  #error(kind: UpstreamError['kind'], what: string): UpstreamError {
    return new UpstreamError(kind, this.#plan.upstream.transport.address, what, { status: this.#status });
  }
}
