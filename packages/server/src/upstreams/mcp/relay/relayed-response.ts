import type { JsonObject } from '@sluice/protocol/json/parse';
import { HEADER_LAST_EVENT_ID, POLLING_VERSION } from '@sluice/protocol/mcp/constants';
import type { UpstreamCall, UpstreamRequest } from '../../../http/client/client.ts';
import type { MessageReceiver } from '../../in-flight-calls.ts';
import type { ResponseEnd, RpcResponseHandler, UpstreamResponse } from '../response-handler.ts';
import { ResponseReader } from '../response-reader.ts';
import { CallMessages } from './call-messages.ts';
import type { AttemptedCall, RelayedRequest } from './call-spec.ts';
import { LargeRelay } from './large-relay.ts';
import { type StreamEnd, StreamResumption } from './stream-resumption.ts';

/** Maximum reconnection delay of a client: shorter than the storage time of its stream, in milliseconds. */
const MAX_POLL_MS = 60_000;

/**
 * The response to a request of a call: passes the messages of the upstream to the client as fast as that reads, resumes an
 * interrupted stream, and ends the attempt with the result.
 */
export class RelayedResponse implements RpcResponseHandler, MessageReceiver {
  readonly #call: AttemptedCall;
  readonly #request: RelayedRequest;
  /** Reads the response to the request, or to the latest one that resumes its stream. */
  #reader: ResponseReader;
  /** The client reads too slowly: the upstream is not read. */
  #isBlocked = false;
  /** The client gets no more messages. */
  #isCanceled = false;
  #messages: CallMessages | undefined = undefined;
  #resumption: StreamResumption | undefined = undefined;
  #largeRelay: LargeRelay | undefined = undefined;

  constructor(call: AttemptedCall, request: RelayedRequest) {
    this.#call = call;
    this.#request = request;
    this.#reader = new ResponseReader(call.spec.upstream.transport.address, request, this);
  }

  /** Sends the request. To be called once. */
  send(request: UpstreamRequest): UpstreamCall {
    return this.#reader.send(this.#call.spec.upstream.transport, request);
  }

  /** The upstream may be silent: the client is slow or owes a response, a pause was announced, or a task is awaited. */
  get mayBeIdle(): boolean {
    const pending = this.#messages?.pending ?? 0;
    const awaitsResult = this.#call.spec.task?.awaitsResult === true;
    return this.#isBlocked || pending > 0 || this.#resumption?.isWaiting === true || awaitsResult;
  }

  onActivity(): void {
    this.#call.lastActivityAt = performance.now();
  }

  cork(isCorked: boolean): void {
    this.#call.sink?.cork(isCorked);
  }

  onProgress(text: string): void {
    this.onActivity();
    // That stream cannot be paused for this client: it misses progress until it has read the buffered messages.
    if (!this.#isBlocked) this.#ownMessages().onProgress(text);
  }

  onMessage(text: string, value: JsonObject): boolean {
    this.onActivity();
    this.#resumption?.onMessage();
    this.#ownMessages().onMessage(text, value);
    return !this.#isBlocked;
  }

  #ownMessages(): CallMessages {
    this.#messages ??= new CallMessages({
      call: this.#call,
      request: this.#request,
      notify: (text) => this.#notify(text),
      fail: (error) => this.#fail(error),
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
    if (this.#isBlocked) return;
    this.#isBlocked = true;
    this.#reader.pause();
    this.#call.sink?.onDrain(() => {
      this.#isBlocked = false;
      // First, since the call may end with the rest of its response. It may block the call again.
      this.#request.session.bridge?.resume?.();
      if (!this.#isBlocked) this.#reader.resume();
    });
  }

  get large(): LargeRelay {
    this.#largeRelay ??= new LargeRelay({
      call: this.#call,
      request: this.#request,
      reader: this.#reader,
      block: () => this.#block(),
    });
    return this.#largeRelay;
  }

  onCursor(id: string | undefined, retryMs: number | undefined): void {
    this.#resumption ??= new StreamResumption((eventId) => this.#resume(eventId));
    this.#resumption.onCursor(id, retryMs);
  }

  onEnd(end: ResponseEnd): void {
    switch (end.kind) {
      case 'response':
      case 'large':
        return this.#onResponse(end);
      case 'interrupted':
        return this.#onInterrupted(end);
      case 'rejected':
      case 'session-unknown': {
        if (this.#resumption?.isInterrupted) return this.#onInterrupted(end);
        // An upstream that has sent a request has processed the call.
        if (end.kind === 'session-unknown' && !this.#messages?.hasRequests) return this.#call.onEnd(end);
        this.#fail(end.error);
        if (end.session) this.#call.spec.upstream.sessions.check(this.#request.session, end.session);
        return;
      }
      case 'internal-error':
        return this.#call.onEnd(end);
    }
  }

  #onResponse(response: UpstreamResponse): void {
    const { messages, upstream } = this.#call.spec;
    if (messages && response.kind === 'response' && this.#reader.isStream) {
      response.text = messages.toClient(response.text, response.value) || response.text;
    }
    // Before the response, which is the last message that the client gets.
    this.#messages?.cancelAll();
    this.#call.onEnd(response);
    // The next request of this client is sent in another session.
    if (response.session) upstream.sessions.check(this.#request.session, response.session);
  }

  /** Resumes the stream if the upstream made it resumable. */
  #onInterrupted(end: StreamEnd): void {
    const resumption = this.#request.session.era === 'legacy' ? this.#resumption : undefined;
    const error = resumption ? resumption.next(end) : end.error;
    if (error) return this.#fail(error);
    if (end.kind !== 'interrupted' || !end.isRegular || this.#messages?.pending) return;
    // The upstream is to be polled for the rest, and so is the service: the client needs no connection meanwhile.
    const { sink } = this.#call;
    const { session, accepts } = sink?.client ?? {};
    if (!session || !accepts?.sse || session.protocolVersion < POLLING_VERSION) return;
    sink?.disconnect(Math.min(resumption?.retryMs ?? 0, MAX_POLL_MS));
  }

  #resume(eventId: string): void {
    const { upstream, edits } = this.#call.spec;
    const { id, session, sessionId, maxBytes } = this.#request;
    const { transport } = upstream;
    const resumption = ['Accept', 'text/event-stream', HEADER_LAST_EVENT_ID, eventId];
    const read = { id, name: 'GET', sessionId, maxBytes, requiresStream: true };
    this.#reader = new ResponseReader(transport.address, read, this);
    if (this.#isBlocked) this.#reader.pause();
    this.#reader.send(transport, {
      method: 'GET',
      headers: [...session.identityHeaders, ...edits.headers, ...resumption],
    });
  }

  /** The client has canceled the call: it gets no more messages. */
  cancel(): void {
    this.#messages?.cancelAll();
    this.#isCanceled = true;
  }

  /** The legacy client has disconnected: the rest of the response is read nevertheless. */
  onClientDisconnected(): void {
    this.#isBlocked = false;
    this.#messages?.failAll();
    this.#reader.resume();
  }

  /** Ends reading, unless the response has arrived. Returns whether nothing that the upstream has sent waits to be read. */
  end(isSuccess: boolean): boolean {
    this.#messages?.cancelAll();
    this.#resumption?.cancel();
    if (!isSuccess) this.#reader.abort();
    return isSuccess && !this.#isBlocked;
  }

  #fail(error: unknown): void {
    this.#call.onEnd({ kind: 'failed', error });
  }
}
