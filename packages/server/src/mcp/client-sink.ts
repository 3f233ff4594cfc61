import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import type { ClientFacts } from '../upstreams/client-facts.ts';
import { type CallOutcome, joinListeners, type ResponseBody, type ResponseSink } from '../upstreams/response-sink.ts';
import type { OpenWriter } from './open-responses.ts';
import type { ResponseWriter } from './response.ts';
import { inOneLine, type OpenBody, writeParts } from './response-stream.ts';

/** Sends a client the response to a request that is executed upstream. */
export class ClientSink implements ResponseSink {
  readonly client: ClientFacts;
  readonly writer: ResponseWriter;
  readonly isAwaited = true;
  readonly observer = undefined;
  readonly clientRequests = undefined;
  /** The client gets something from time to time. */
  readonly #open: OpenWriter | undefined;
  /** Set once a result was begun that is sent while it arrives. */
  #body: OpenBody | undefined = undefined;

  constructor(writer: ResponseWriter, client: ClientFacts, open?: OpenWriter) {
    this.writer = writer;
    this.client = client;
    this.#open = open;
  }

  onDisconnect(listener: () => void): void {
    const { writer } = this;
    const { response } = writer;
    writer.onDropped = joinListeners(writer.onDropped, listener);
    const onClose = () => {
      this.#open?.remove();
      if (!response.writableEnded && !writer.stream?.isIndependent) listener();
    };
    // The client may have disconnected before its outcome was known. Later, once the caller is ready.
    if (response.destroyed) process.nextTick(onClose);
    // Not `once`, which would wrap the listener: a response closes only once.
    else response.on('close', onClose);
  }

  /** Only messages are collected: a response without a stream is one write anyway. */
  cork(isCorked: boolean): void {
    this.writer.stream?.cork(isCorked);
  }

  onDrain(listener: () => void): void {
    const { stream, response } = this.writer;
    if (stream) stream.onDrain(listener);
    else response.once('drain', listener);
  }

  sendMessage(data: string): boolean {
    return this.writer.startStream().send(data);
  }

  disconnect(retryMs: number): void {
    this.writer.startStream().disconnect(retryMs);
  }

  /** A JSON response that arrives at once is sent at once. */
  startBody(length: number | undefined, isFirst: boolean): ResponseBody | undefined {
    const { response, stream } = this.writer;
    if (stream) this.#body = inOneLine(stream.beginLast());
    else if (this.client.accepts.json && !isFirst) {
      this.writer.startJson(200, length);
      this.#body = { write: (parts, onWritten) => writeParts(response, parts, onWritten), end: () => response.end() };
    }
    return this.#body;
  }

  /** Nothing is sent to a client that has disconnected and cannot resume its stream. */
  complete(outcome: CallOutcome): void {
    const { response, stream } = this.writer;
    if (response.destroyed && !stream?.isIndependent) return;
    switch (outcome.kind) {
      case 'response':
        return this.#sendResponse(outcome);
      case 'large':
        return this.#sendLarge(outcome);
      case 'sent':
        return this.#body?.end();
      case 'result':
        if (!this.client.accepts.json) this.writer.startStream();
        return this.writer.sendResult(outcome);
      case 'failed':
        if (this.client.facts) this.client.facts.error = outcome.error;
        if (this.#body && !stream) return void response.destroy();
        return this.writer.sendError(outcome.error, outcome.status);
      case 'canceled':
        return this.#endWithoutResponse();
    }
  }

  /** A complete response is sent as JSON even if the upstream sent a stream: that costs least. */
  #sendResponse({ text, value, status, isAscii }: OutcomeOf<'response'>): void {
    if (this.#sendsJson(value)) this.writer.sendJson(status, text, isAscii ? text.length : Buffer.byteLength(text));
    else this.writer.startStream().end(text);
  }

  #sendLarge({ bytes: { before, after, free }, value, status }: OutcomeOf<'large'>): void {
    const { writer } = this;
    const parts = [...before, Buffer.from(writer.idText), ...after];
    if (this.#sendsJson(value)) {
      writer.startJson(status, lengthOf(parts));
      writeParts(writer.response, parts, free);
      writer.response.end();
      return;
    }
    const body = inOneLine(writer.startStream().beginLast());
    body.write(parts, () => free?.());
    body.end();
  }

  /** Whether a response is sent as JSON, as errors are even if the client does not accept it. Records the code of an error. */
  #sendsJson(value: JsonObject): boolean {
    const { facts, accepts } = this.client;
    if ('result' in value) return !this.writer.stream && accepts.json;
    const code = isJsonObject(value.error) ? value.error.code : undefined;
    // Upstreams may send codes of any type.
    if (facts && Number.isInteger(code)) facts.error = { code: Number(code), message: undefined };
    return !this.writer.stream;
  }

  #endWithoutResponse(): void {
    const { writer } = this;
    if (writer.stream) return writer.stream.end();
    if (this.#body) return void writer.response.destroy();
    if (!this.client.accepts.sse) return writer.sendPlain(202);
    // There is nothing to resume.
    writer.openStream = undefined;
    writer.startStream().end();
  }
}

type OutcomeOf<Kind extends CallOutcome['kind']> = Extract<CallOutcome, { kind: Kind }>;

function lengthOf(parts: readonly Buffer[]): number {
  return parts.reduce((bytes, part) => bytes + part.length, 0);
}
