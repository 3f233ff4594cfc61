import { progressTokenRange } from '@sluice/protocol/mcp/message';
import { withParam } from '@sluice/protocol/mcp/message-text';
import type { UpstreamCall } from '../../../http/client/client.ts';
import type { RequestInSession } from '../../in-flight-calls.ts';
import { isSameId, requestIds } from '../request-ids.ts';
import type { UpstreamSession } from '../upstream-sessions.ts';
import { postInSession } from './call-messages.ts';
import type { AttemptedCall, RelayedRequest } from './call-spec.ts';
import { RelayedResponse } from './relayed-response.ts';

/**
 * One request of a call in a session of the upstream, which stays open until the attempt is ended: sends the client's own bytes
 * with the edits of the spec.
 */
export class HttpAttempt implements RelayedRequest, RequestInSession {
  readonly id: number = requestIds.next();
  readonly name: string;
  readonly sessionId: string | undefined;
  readonly maxBytes: number;
  readonly session: UpstreamSession;
  readonly response: RelayedResponse;
  readonly #call: AttemptedCall;
  #sent: UpstreamCall | undefined = undefined;

  constructor(call: AttemptedCall, session: UpstreamSession, maxBytes: number) {
    this.name = call.spec.message.method;
    this.sessionId = session.sessionId;
    this.maxBytes = maxBytes;
    this.session = session;
    this.#call = call;
    this.response = new RelayedResponse(call, this);
    session.use.inFlight++;
  }

  send(): void {
    this.#sent = this.response.send(this.#call.spec.edits.request(this.id, this.session.headers));
  }

  hasProgressToken(token: string | undefined): boolean {
    return isSameId(this.id, token) && progressTokenRange(this.#call.spec.message) !== undefined;
  }

  /** True if the request was sent completely, once the response is complete. */
  get isSent(): boolean {
    return this.#sent?.isSent === true;
  }

  /** The client has canceled the call by this notification, of which the legacy upstream is informed. */
  cancel(text: string): void {
    this.#post(withParam(text, 'requestId', String(this.id))).catch(() => undefined);
    this.response.cancel();
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
      .finally(() => sessions.release(session, this.#call.lastActivityAt));
  }

  #post(message: string): Promise<void> {
    return postInSession(this.#call, this.session, message);
  }

  /** Ends the attempt and releases the session; `isSuccess`: the response has arrived. */
  end(isSuccess: boolean): void {
    const { session } = this;
    const { sessions } = this.#call.spec.upstream;
    const isRead = this.response.end(isSuccess);
    requestIds.release(this.id);
    // The upstream may still be processing the request, or messages of it may be blocked on the session's own stream.
    if (session.isExclusive && !isRead) sessions.discard(session);
    sessions.release(session, this.#call.lastActivityAt);
  }
}
