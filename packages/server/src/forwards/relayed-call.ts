import type { ClientAnswer } from '../answer/client-answer.ts';
import { ByteCollector } from '../bytes/collector.ts';
import { isJsonObject, type JsonObject } from '../json/lossless.ts';
import { tryParseJson } from '../json/parse.ts';
import { elements, members } from '../json/scan.ts';
import { type Edit, splice } from '../json/splice.ts';
import { type EventSink, EventStreamDecoder, type ServerSentEvent } from '../mcp/event-stream.ts';
import { LEAST_LEVEL, reachesLevel, requestedLevel } from '../mcp/log-level.ts';
import type { NotificationMessage } from '../mcp/message.ts';
import { withParam } from '../mcp/params-text.ts';
import {
  HEADER_LAST_EVENT_ID,
  INTERNAL_ERROR,
  LIST_CHANGED_METHODS,
  METHOD_NOT_FOUND,
  MODERN_ERROR_CODES,
  POLLING_VERSION,
} from '../mcp/protocol.ts';
import { refusalOf } from '../mcp/refusal.ts';
import { detached } from '../registry/stored-entry.ts';
import type { CallParts, CallPlan } from './call-plan.ts';
import type { Watched } from './calls-under-way.ts';
import { deliver } from './deliver.ts';
import type { UpstreamLink } from './links.ts';
import { UpstreamQuestions } from './questions.ts';
import { ResumePoint } from './resume-point.ts';
import { tellsSessionLost } from './session-loss.ts';
import type { ResponseHandler, ResponseHeaders, UpstreamCall } from './transport.ts';
import type { Upstream } from './upstream.ts';
import { UpstreamError } from './upstream-error.ts';
import { contentType, decidesNothing } from './upstream-response.ts';

/** How long an upstream may keep a stream open after the answer, so that its connection can be used again. */
const LINGER_MS = 1_000;

/** Requests of an upstream that are refused on one call before the call is given up. */
const MAX_REFUSED = 16;

/** The longest that our client is sent away for: not as long as its own stream is kept. */
const MAX_AWAY_MS = 60_000;

type Mode = 'waiting' | 'json' | 'stream' | 'over';

/**
 * One call on its way: sends the client's own bytes, with what must differ spliced in, and hands the answer back the
 * same way. The hot path: one object per call is both the transport's handler and the event stream's sink, and
 * nothing is a promise unless a session has to be opened first.
 */
export class RelayedCall implements ResponseHandler, EventSink, Watched {
  readonly startedAt: number;
  activeAt: number;
  slot = -1;
  lasting = false;
  readonly #parts: CallParts;
  readonly #plan: CallPlan;
  readonly #answer: ClientAnswer;
  #mode: Mode = 'waiting';
  #link: UpstreamLink | undefined = undefined;
  #call: UpstreamCall | undefined = undefined;
  /** Our id of the request upstream, which also serves as its progress token. */
  #id = 0;
  #status = 0;
  #body = new ByteCollector();
  #decoder: EventStreamDecoder | undefined = undefined;
  #blocked = false;
  #refused = 0;
  #renewed = false;
  #clientGone = false;
  #linger: NodeJS.Timeout | undefined = undefined;
  /** What the upstream has asked the client on this call. */
  #questions: UpstreamQuestions | undefined = undefined;
  /** Where the upstream's stream can be taken up again, when it said so. */
  #resumePoint: ResumePoint | undefined = undefined;
  /** The upstream was asked for the rest of its stream and has not answered yet. */
  #resuming = false;

  constructor(parts: CallParts, plan: CallPlan, answer: ClientAnswer) {
    this.#parts = parts;
    this.#plan = plan;
    this.#answer = answer;
    this.startedAt = parts.calls.now();
    this.activeAt = this.startedAt;
  }

  start(): void {
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
    if (this.#mode === 'json') this.#finishJson();
    else if (this.#mode === 'stream') this.#sentAway();
    else this.#fail(this.#error('invalid', `ended without an answer (HTTP ${this.#status})`));
  }

  onError(error: UpstreamError): void {
    if (this.#mode === 'stream') this.#interrupted(error);
    else this.#fail(error);
  }

  /** True for the call that answers this request of this session. */
  isFor(session: string, idText: string): boolean {
    return this.#plan.session?.id === session && this.#answer.idText === idText;
  }

  /** True for the call of this session (undefined: of none) that gave out this progress token to this upstream. */
  reportsTo(upstream: Upstream, session: string | undefined, token: unknown): boolean {
    const { upstream: own, session: client, progressToken } = this.#plan;
    return own === upstream && client?.id === session && progressToken !== undefined && this.#id === token;
  }

  /** A progress notification of the upstream's that did not come on the call's own stream. */
  progressed(data: string, value: JsonObject): void {
    this.activeAt = this.#parts.calls.now();
    // That stream cannot be held up for this client: it does without, until the next one.
    if (!this.#blocked) this.#pass(this.#withClientToken(data, value));
  }

  /** The client no longer wants the answer, as it says in this `notifications/cancelled`: nor does it get one. */
  cancel({ text }: NotificationMessage): void {
    if (this.#mode === 'over') return;
    if (this.#link?.era === 'legacy') this.#tell(withParam(text, 'requestId', String(this.#id)));
    this.#settle();
    this.#call?.abort();
    if (!this.#clientGone) this.#answer.cancelled(this.#plan.streams);
  }

  /** A client that loses the connection can come back for the answer, once it has been told where to. */
  onLasting(): void {
    if (this.#clientGone || this.#answer.streaming || !this.#plan.streams) return;
    if (this.#plan.session && this.#plan.session.protocolVersion >= POLLING_VERSION) this.#answer.beginStream(true);
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
    return this.#blocked || Boolean(this.#questions?.open) || Boolean(this.#resumePoint?.early);
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
        return this.#questions?.cancelled(data);
      default:
        // Our clients are told when the change is here, and they can see it.
        if (LIST_CHANGED_METHODS.has(method)) return this.#plan.upstream.changed();
        // A modern client is promised nothing but what relates to its request (2026-07-28, "Receiving Messages").
        if (!this.#plan.crossing || this.#plan.era === 'legacy') this.#pass(data);
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

  #send(link: UpstreamLink): void {
    // The client may have left, and the deadline passed, while the session was being opened.
    if (this.#mode === 'over') return;
    const { upstream, message, edits, progressToken, headers } = this.#plan;
    this.#link = link;
    link.active++;
    this.#id = upstream.links.nextId();
    const id = String(this.#id);
    const all: Edit[] = [{ start: message.idRange.start, end: message.idRange.end, text: id }, ...edits];
    if (progressToken) all.push({ ...progressToken, text: id });
    this.#call = upstream.transport.dispatch(
      { method: 'POST', headers: [...link.headers, ...headers], body: splice(message.text, all) },
      this,
    );
  }

  /** The upstream no longer knows the session and has not looked at the call: once, it is sent again on a new one. */
  #renew(): void {
    const link = this.#link;
    if (this.#renewed || !link) return this.#fail(this.#error('http', `answered with HTTP ${this.#status}`));
    this.#renewed = true;
    this.#release();
    this.#call?.abort();
    this.#mode = 'waiting';
    this.#body = new ByteCollector();
    this.#plan.upstream.links.forget(link);
    this.#connect();
  }

  #finishJson(): void {
    const text = this.#body.take().toString('utf8');
    const value = tryParseJson(text);
    if (!isJsonObject(value)) return this.#unusable('text that is not a JSON object');
    if (this.#link?.sessionId !== undefined && isJsonObject(value.error)) {
      const { code } = value.error;
      if (tellsSessionLost(this.#status, typeof code === 'number' ? code : undefined)) return this.#renew();
    }
    if (!this.#answers(value)) return this.#unusable('JSON that is no answer to the call');
    this.#succeed(value);
    if (this.#clientGone) return;
    const answer = this.#final(text);
    this.#finish(answer, value);
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
    const answer = this.#final(data);
    this.#decoder?.stop();
    this.#linger = setTimeout(() => this.#call?.abort(), LINGER_MS).unref();
    this.#succeed(value);
    if (this.#clientGone) return;
    this.#finish(answer, value);
  }

  /** An answer that nothing came before is one JSON object, however the upstream sent it: it costs least. */
  #finish(answer: string, value: JsonObject): void {
    if (this.#answer.streaming) return this.#answer.lastEvent(answer);
    if (this.#plan.json || !('result' in value)) {
      this.#answer.beginJson(this.#statusFor(value), Buffer.byteLength(answer));
      this.#answer.end(answer);
    } else {
      this.#answer.beginStream();
      this.#answer.lastEvent(answer);
    }
  }

  #succeed(value: JsonObject): void {
    this.#settle();
    this.#plan.upstream.succeeded();
    const { forward, namespace } = this.#plan;
    if (forward !== undefined && namespace !== undefined) {
      this.#parts.linkedResources.learn(namespace, forward, value);
    }
  }

  /** The response as the client is to have it. */
  #final(text: string): string {
    const answer = withId(text, this.#answer.idText);
    return this.#plan.crossing?.answer(answer) ?? answer;
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
    });
  }

  /** Progress goes to the call whose token it carries, which may be another one's; and to nobody who asked for none. */
  #progress(data: string, value: JsonObject): void {
    if (this.#plan.crossing) return this.#pass(data);
    const { upstream, session, progressToken } = this.#plan;
    const token = isJsonObject(value.params) ? value.params.progressToken : undefined;
    if (token !== this.#id) {
      const own = (call: RelayedCall) => call.reportsTo(upstream, session?.id, token);
      this.#parts.calls.find(own)?.progressed(data, value);
    } else if (progressToken) this.#pass(this.#withClientToken(data, value));
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

  /** A request of the upstream's goes to the client whose call caused it, on this call's own stream (mcp 4). */
  #request(data: string, value: JsonObject): void {
    const { session, streams, era } = this.#plan;
    const { lives, sessions } = this.#parts;
    const legacy = era === 'legacy' && this.#link?.era === 'legacy';
    if (session && streams && legacy && !this.#clientGone && !sessions.ended(session)) {
      this.#questions ??= new UpstreamQuestions({
        live: () => lives.of(session.id),
        send: (text) => this.#pass(text),
        deliver: (text) => this.#deliver(text),
      });
      if (this.#questions.ask(data, value)) return;
    }
    this.#refuse(data, value);
  }

  /** A client that cannot be asked: the upstream is told so, and does not wait. One that goes on asking is not serious. */
  #refuse(data: string, { method }: JsonObject): void {
    if (++this.#refused > MAX_REFUSED)
      return this.#fail(this.#error('invalid', 'goes on asking a client that cannot be asked'));
    this.#tell(refusalOf(data, method));
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
      this.#questions?.abandonAll();
      this.#call?.resume();
      return;
    }
    this.#tellCancelled('the client has left');
    this.#settle();
    this.#call?.abort();
  }

  /** Nobody waits for the answer. A modern upstream is told by the end of its request. */
  #tellCancelled(reason: string): void {
    if (this.#link?.era !== 'legacy') return;
    const params = `{"requestId":${this.#id},"reason":"${reason}"}`;
    this.#tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`);
  }

  /** Sends the upstream a message of its own that may be lost, the way the call went. */
  #tell(message: string): void {
    this.#deliver(message).catch(() => undefined);
  }

  /** Sends the upstream a message of its own; resolves when it has taken it. */
  async #deliver(message: string): Promise<void> {
    const { upstream, headers } = this.#plan;
    await deliver(upstream.transport, [...(this.#link?.identity ?? []), ...headers], message);
    this.activeAt = this.#parts.calls.now();
  }

  /** The upstream has ended its stream, to be asked for the rest: so is the client, which need not wait on a connection. */
  #sentAway(): void {
    const { session, streams } = this.#plan;
    this.#resumePoint?.ended();
    this.#interrupted(this.#error('dropped', 'ended the event stream before the answer'));
    if (this.#mode === 'over' || this.#clientGone || !streams || this.#questions?.open) return;
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

  #resume(link: UpstreamLink, eventId: string): void {
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
    if (decidesNothing(this.#status)) this.#interrupted(error);
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
    if (this.#clientGone) return;
    const reason = error instanceof UpstreamError ? error.message : 'internal error';
    this.#answer.error({ code: INTERNAL_ERROR, message: `${this.#plan.failure}: ${reason}` });
  }

  #settle(): void {
    this.#questions?.withdrawAll();
    this.#mode = 'over';
    this.#resumePoint?.cancel();
    this.#release();
  }

  #release(): void {
    this.#parts.calls.unwatch(this);
    if (!this.#link) return;
    this.#plan.upstream.links.release(this.#link, this.activeAt);
    this.#link = undefined;
  }

  #error(kind: UpstreamError['kind'], what: string): UpstreamError {
    return new UpstreamError(kind, this.#plan.upstream.transport.address, what, { status: this.#status });
  }
}

/** The response's text with the client's id in place of ours. */
function withId(text: string, idText: string): string {
  for (const { key, start, end } of members(text))
    if (key === 'id') return splice(text, [{ start, end, text: idText }]);
  // An error without an id: it gets one.
  return text.replace('{', () => `{"id":${idText},`);
}
