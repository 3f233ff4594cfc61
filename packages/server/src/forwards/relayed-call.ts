import type { ClientAnswer } from '../answer/client-answer.ts';
import { ByteCollector } from '../bytes/collector.ts';
import { isJsonObject, type JsonObject } from '../json/lossless.ts';
import { parseJson } from '../json/parse.ts';
import { elements, members } from '../json/scan.ts';
import { type Edit, splice } from '../json/splice.ts';
import { type EventSink, EventStreamDecoder, type ServerSentEvent } from '../mcp/event-stream.ts';
import type { RequestMessage } from '../mcp/message.ts';
import { type Era, INTERNAL_ERROR, METHOD_NOT_FOUND, MODERN_ERROR_CODES } from '../mcp/protocol.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { Crossing } from './crossing.ts';
import type { Deadlines, Watched } from './deadlines.ts';
import type { UpstreamLink } from './links.ts';
import { tellsSessionLost } from './session-loss.ts';
import type { ResponseHandler, ResponseHeaders, UpstreamCall } from './transport.ts';
import type { Upstream } from './upstream.ts';
import { UpstreamError } from './upstream-error.ts';
import { contentType } from './upstream-response.ts';

/** Everything about one call that is known before it is sent. */
export interface CallPlan {
  readonly upstream: Upstream;
  readonly message: RequestMessage;
  /** Replacements in the message's text besides the id: the upstream's own name for what is called. */
  readonly edits: readonly Edit[];
  /** Set where client and upstream are of different eras. */
  readonly crossing: Crossing | undefined;
  /** Where the client's progress token stands in the text; undefined when it wants no progress. */
  readonly progressToken: Edit | undefined;
  /** Headers besides the link's own. */
  readonly headers: readonly string[];
  /** The link to send on, asked for again after the upstream has forgotten its session. */
  link(): UpstreamLink | Promise<UpstreamLink>;
  /** What failures are called: `forwarded tool call failed`. */
  readonly failure: string;
  /** Whether the client said that it reads event streams. */
  readonly streams: boolean;
  /** The client's; its leaving ends a modern call and not a legacy one (mcp 1). */
  readonly era: Era;
  readonly deadlines: Deadlines;
  /** Bound on an answer that must be held whole, in bytes. */
  readonly maxResponseBytes: number;
  readonly log: TargetLogger;
}

/** How long an upstream may keep a stream open after the answer, so that its connection can be used again. */
const LINGER_MS = 1_000;

/** Requests of an upstream that are refused on one call before the call is given up. */
const MAX_REFUSED = 16;

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

  constructor(plan: CallPlan, answer: ClientAnswer) {
    this.#plan = plan;
    this.#answer = answer;
    this.startedAt = plan.deadlines.now();
    this.activeAt = this.startedAt;
  }

  start(): void {
    this.#answer.onLeave(() => this.#clientLeft());
    this.#connect();
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.activeAt = this.#plan.deadlines.now();
    this.#status = status;
    if (status === 404 && this.#link?.sessionId !== undefined) return this.#renew();
    const type = contentType(headers);
    if (type === 'text/event-stream' && status < 300) {
      this.#mode = 'stream';
      this.#decoder = new EventStreamDecoder(this, this.#plan.maxResponseBytes);
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
    this.activeAt = this.#plan.deadlines.now();
    if (this.#body.length + chunk.length > this.#plan.maxResponseBytes) {
      this.#fail(this.#error('too-large', `answered with more than ${this.#plan.maxResponseBytes} bytes`));
    } else {
      this.#body.push(chunk);
    }
    return true;
  }

  onEnd(): void {
    clearTimeout(this.#linger);
    if (this.#mode === 'json') this.#finishJson();
    else if (this.#mode === 'stream') this.#fail(this.#error('dropped', 'ended the event stream before the answer'));
    else this.#fail(this.#error('invalid', `ended without an answer (HTTP ${this.#status})`));
  }

  onError(error: UpstreamError): void {
    this.#fail(error);
  }

  onDeadline(limit: 'silence' | 'total'): void {
    if (limit === 'silence' && this.#blocked) {
      // It is our client who is slow: the upstream is not being read.
      this.activeAt = this.#plan.deadlines.now();
      this.#plan.deadlines.watch(this);
      return;
    }
    const { silenceMs, totalMs } = this.#plan.deadlines.limits;
    const what =
      limit === 'silence' ? `sent nothing for ${silenceMs / 1000} s` : `did not finish within ${totalMs / 1000} s`;
    this.#fail(this.#error('timeout', what));
  }

  onEvent({ data }: ServerSentEvent): void {
    // Streams may begin with an event that carries an id and nothing else, to resume from.
    if (data === '') return;
    this.activeAt = this.#plan.deadlines.now();
    const value = parse(data);
    if (!Array.isArray(value)) return this.#message(data, value);
    // Version 2025-03-26 may answer in arrays of messages.
    let index = 0;
    for (const { start, end } of elements(data)) {
      if (this.#mode === 'stream') this.#message(data.slice(start, end), value[index++]);
    }
  }

  #message(data: string, value: unknown): void {
    if (!isJsonObject(value)) return this.#fail(this.#error('invalid', 'sent an event that is no JSON-RPC message'));
    if (!('method' in value)) return this.#finishStream(data, value);
    if ('id' in value) return this.#refuse(data);
    const { method } = value;
    if (typeof method === 'string' && this.#plan.crossing?.passes(method) === false) return;
    this.#pass(method === 'notifications/progress' ? this.#withClientToken(data, value) : data);
  }

  onEventError(error: Error): void {
    this.#fail(this.#error('too-large', error.message));
  }

  #connect(): void {
    // Opening a session counts: a client waits for it as for the call.
    this.#plan.deadlines.watch(this);
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
    const value = parse(text);
    if (!isJsonObject(value)) return this.#unusable('text that is not a JSON object');
    if (this.#link?.sessionId !== undefined && isJsonObject(value.error)) {
      const { code } = value.error;
      if (tellsSessionLost(this.#status, typeof code === 'number' ? code : undefined)) return this.#renew();
    }
    if (!this.#answers(value)) return this.#unusable('JSON that is no answer to the call');
    this.#settle();
    this.#plan.upstream.succeeded();
    if (this.#clientGone) return;
    const answer = this.#final(text);
    this.#answer.beginJson(this.#statusFor(value), Buffer.byteLength(answer));
    this.#answer.end(answer);
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
    this.#settle();
    this.#plan.upstream.succeeded();
    if (this.#clientGone) return;
    if (this.#answer.streaming || ('result' in value && this.#plan.streams)) {
      if (!this.#answer.streaming) this.#answer.beginStream();
      this.#answer.event(answer);
      this.#answer.end();
    } else {
      this.#answer.beginJson(this.#statusFor(value), Buffer.byteLength(answer));
      this.#answer.end(answer);
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

  /**
   * A request of the upstream's: it is told that nobody here can answer it, so that it does not wait. One that goes on
   * asking is not serious.
   */
  #refuse(data: string): void {
    if (++this.#refused > MAX_REFUSED)
      return this.#fail(this.#error('invalid', 'goes on asking a client that cannot be asked'));
    for (const { key, start, end } of members(data)) {
      if (key !== 'id') continue;
      const error = `{"code":${METHOD_NOT_FOUND},"message":"the client cannot be asked on this connection"}`;
      this.#tell(`{"jsonrpc":"2.0","id":${data.slice(start, end)},"error":${error}}`);
    }
  }

  /** Puts the client's own progress token in place of ours. */
  #withClientToken(data: string, value: JsonObject): string {
    const { message, progressToken } = this.#plan;
    if (!progressToken || !isJsonObject(value.params) || value.params.progressToken !== this.#id) return data;
    for (const params of members(data)) {
      if (params.key !== 'params') continue;
      for (const { key, start, end } of members(data, params.start)) {
        const text = message.text.slice(progressToken.start, progressToken.end);
        if (key === 'progressToken') return splice(data, [{ start, end, text }]);
      }
    }
    return data;
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
      this.#call?.resume();
      return;
    }
    if (this.#link?.era === 'legacy') {
      const params = `{"requestId":${this.#id}}`;
      this.#tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`);
    }
    this.#settle();
    this.#call?.abort();
  }

  /** Sends the upstream a message of its own, the way the call went. */
  #tell(message: string): void {
    const headers = [...(this.#link?.headers ?? []), ...this.#plan.headers];
    this.#plan.upstream.post(headers, message);
  }

  #fail(error: unknown): void {
    if (this.#mode === 'over') return;
    this.#decoder?.stop();
    this.#settle();
    this.#call?.abort();
    const { log, message, upstream } = this.#plan;
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
    this.#mode = 'over';
    this.#release();
  }

  #release(): void {
    this.#plan.deadlines.unwatch(this);
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

function parse(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}
