import type { JsonObject } from '@sluice/protocol/json/parse';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import type { NotificationMessage } from '@sluice/protocol/mcp/message';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { ClientFacts } from '../../client-facts.ts';
import { type CallEnd, CLIENT_CANCELED, CLIENT_DISCONNECTED, type InFlightCall } from '../../in-flight-calls.ts';
import { failedOutcome, type ResponseSink } from '../../response-sink.ts';
import type { UpstreamResponse } from '../response-handler.ts';
import { LOST_SESSION_REMEDY } from '../session-loss.ts';
import type { UpstreamSession } from '../upstream-sessions.ts';
import type { AttemptEnd, AttemptedCall, CallDeps, CallSpec } from './call-spec.ts';
import { HttpAttempt } from './http-attempt.ts';
import { createsTask, sendResponse } from './response-rewrite.ts';

/** Time that an upstream has to respond to a canceled call, in milliseconds. */
const CANCELED_MS = 500;

/**
 * One call to an upstream, from the opening of its session to its outcome: within deadlines, and until its client cancels it. It
 * is attempted twice if the upstream does not know the session. Hot path: there is no promise unless a session has to be opened
 * first.
 */
export class RelayedCall implements InFlightCall, AttemptedCall {
  startedAt: number;
  lastActivityAt: number;
  index = -1;
  readonly #context: CallDeps;
  /** A retry of the client replaces parts of it. */
  spec: CallSpec;
  readonly #sink: ResponseSink;
  #isDone = false;
  /** Set while a request is in flight. */
  attempt: HttpAttempt | undefined = undefined;
  /** The call is attempted again in a new session. */
  #isRepeated = false;
  #isClientDisconnected = false;
  /** Set once the client has canceled the call: ends it without a response. */
  #cancelTimer: NodeJS.Timeout | undefined = undefined;

  constructor(context: CallDeps, spec: CallSpec, sink: ResponseSink) {
    this.#context = context;
    this.spec = spec;
    this.#sink = sink;
    this.lastActivityAt = performance.now();
    this.startedAt = this.lastActivityAt;
  }

  /** `startedAt`: start of the client's call, if this is not the first call upstream for it. */
  start(startedAt: number = this.startedAt): void {
    this.startedAt = startedAt;
    this.#sink.onDisconnect(() => this.#onClientDisconnected());
    this.#connect();
  }

  get sink(): ResponseSink | undefined {
    return this.#isClientDisconnected ? undefined : this.#sink;
  }

  #connect(): void {
    // The deadlines include opening a session: the client waits for it as well.
    this.#context.calls.add(this);
    const session = this.spec.openSession(this.#isRepeated);
    if (!(session instanceof Promise)) return this.#send(session);
    session.then(
      (opened) => this.#send(opened),
      (error: unknown) => this.#fail(error),
    );
  }

  #send(session: UpstreamSession): void {
    // The client may have disconnected, or the deadline passed, while the session was opened.
    if (this.#isDone) {
      session.use.isLeased = false;
      return;
    }
    this.attempt = new HttpAttempt(this, session, this.#context.maxResponseBytes);
    this.attempt.send();
  }

  onEnd(end: AttemptEnd): void {
    switch (end.kind) {
      case 'response':
      case 'large':
        return this.#onResponse(end);
      case 'relayed':
        this.#onResponded(end.value);
        if (!this.#isClientDisconnected) end.relay.send();
        return this.#sink.complete({ kind: 'sent', value: end.value });
      case 'session-unknown':
        return this.#repeat(end.error);
      case 'failed':
        return this.#fail(end.error);
      case 'internal-error':
        return this.#onInternalError(end.error);
    }
  }

  /** Sends the call again, once, in a new session. */
  #repeat(error: UpstreamError): void {
    const { upstream } = this.spec;
    const attempt = this.attempt;
    if (this.#cancelTimer || !attempt) return this.#fail(error);
    if (this.#isRepeated) {
      const { address, status = 0 } = error;
      const what = `does not know a session that it has just opened (HTTP ${status}): ${LOST_SESSION_REMEDY}`;
      return this.#fail(new UpstreamError('http', address, what, { status }));
    }
    this.#isRepeated = true;
    attempt.end(false);
    this.attempt = undefined;
    upstream.sessions.discard(attempt.session, true);
    this.#connect();
  }

  #onResponse(response: UpstreamResponse): void {
    const { value } = response;
    const attempt = this.attempt;
    if (attempt && response.kind === 'response' && createsTask(this.spec, attempt.session.era, value)) {
      return this.#cancelTimer ? this.#endCanceled() : this.#onTaskCreated(attempt, response.text, value);
    }
    // An adapter may continue the call in its session.
    const respondsFirst = this.#sink.isAwaited && !this.spec.rewriter;
    if (!respondsFirst) this.#onResponded(value);
    sendResponse(this.#sink, this.spec, response);
    if (respondsFirst) this.#onResponded(value);
  }

  #onTaskCreated({ session, id }: HttpAttempt, text: string, value: JsonObject): void {
    const [spec, sink] = [this.spec, this.#sink];
    // Before the session is released: the task keeps it open.
    spec.task?.handler?.onCreated({ spec, session, requestId: String(id), sink }, text, value);
    this.#settle(true);
  }

  #onResponded(value: JsonObject): void {
    const { forward, message, needsTranslation } = this.spec;
    const { namespace } = this.#sink.client;
    const isSent = this.attempt?.isSent === true;
    this.#settle(true);
    if (forward !== undefined && namespace !== undefined) {
      this.#context.resourceLinks.record(namespace, forward, value);
    }
    // Between eras, the message may be sent again.
    if (isSent && !needsTranslation) message.bytes?.free();
  }

  /** Handling a message of the upstream failed: that fails this call, and not the service. */
  #onInternalError(error: unknown): void {
    if (!this.#isDone) return this.#fail(error);
    this.#context.log.error('call failed', { method: this.spec.message.method, error });
    const message = `${this.spec.failure}: internal error`;
    this.#sink.complete({ kind: 'failed', error: { code: INTERNAL_ERROR, message } });
  }

  get client(): ClientFacts {
    return this.#sink.client;
  }

  get forward(): string | undefined {
    return this.spec.forward;
  }

  cancel({ text }: NotificationMessage): void {
    if (this.#isDone || this.#cancelTimer) return;
    const attempt = this.attempt;
    this.spec.task?.onAbandoned?.();
    this.#sink.observer?.canceled(CLIENT_CANCELED);
    if (attempt?.session.era !== 'legacy') return this.#endCanceled();
    attempt.cancel(text);
    // Some servers respond to a canceled request, and some clients wait for that.
    this.#cancelTimer = setTimeout(() => this.#endCanceled(), CANCELED_MS).unref();
  }

  #endCanceled(): void {
    if (this.#isDone) return;
    this.#settle(false);
    this.#sink.complete({ kind: 'canceled' });
  }

  onDeadline(limit: 'idle' | 'total'): void {
    const { upstream } = this.spec;
    const { idleMs, totalMs } = this.#context.calls.limits;
    const what = limit === 'idle' ? `sent nothing for ${idleMs / 1000} s` : `did not finish within ${totalMs / 1000} s`;
    this.#abandon('it took too long');
    this.#fail(new UpstreamError('timeout', upstream.transport.address, what));
  }

  end({ error, category }: CallEnd): void {
    if (this.#isDone) return;
    this.#abandon(error.message);
    this.#settle(false);
    this.#sink.complete(failedOutcome(error, category, 'aborted'));
  }

  #onClientDisconnected(): void {
    this.#isClientDisconnected = true;
    if (this.#isDone) return;
    if (this.#sink.client.era === 'legacy') return this.attempt?.response.onClientDisconnected();
    this.#sink.observer?.canceled(CLIENT_DISCONNECTED);
    this.#abandon(CLIENT_DISCONNECTED);
    this.#settle(false);
  }

  /** Nobody waits for the response any more. */
  #abandon(reason: string): void {
    this.spec.task?.onAbandoned?.();
    this.attempt?.abandon(reason);
  }

  #fail(error: unknown): void {
    if (this.#isDone) return;
    if (this.#cancelTimer) return this.#endCanceled();
    this.#settle(false);
    const { log } = this.#context;
    const { message, upstream, failure } = this.spec;
    const reason = `${failure}: ${error instanceof UpstreamError ? error.message : 'internal error'}`;
    const failed = { code: INTERNAL_ERROR, message: reason };
    if (error instanceof UpstreamError) {
      if (error.kind === 'refused' || error.kind === 'dropped') upstream.changed.emit({ kind: 'unreachable', error });
      log.debug('call failed', { method: message.method, error });
      const category = error.isUnavailable ? 'SERVICE_UNAVAILABLE' : 'UNKNOWN';
      return this.#sink.complete(failedOutcome(failed, category, error.kind));
    }
    log.error('call failed', { method: message.method, upstream: upstream.transport.address, error });
    this.#sink.complete({ kind: 'failed', error: failed });
  }

  /** Ends the call upstream; `isSuccess`: the response has arrived. */
  #settle(isSuccess: boolean): void {
    const { upstream, task } = this.spec;
    this.#isDone = true;
    clearTimeout(this.#cancelTimer);
    task?.onSettled?.();
    this.#context.calls.remove(this);
    this.attempt?.end(isSuccess);
    this.attempt = undefined;
    if (isSuccess && !upstream.isAvailable) upstream.changed.emit({ kind: 'reachable' });
  }
}
