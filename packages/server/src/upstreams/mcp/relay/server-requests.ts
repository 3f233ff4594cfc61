import { applyEdits, memberText, replaceAt } from '@sluice/protocol/json/text';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import type { ResponseMessage } from '@sluice/protocol/mcp/message';
import { paramText, progressTokenText, withParam } from '@sluice/protocol/mcp/message-text';
import type { ServerRequests } from '../../client-requests.ts';
import type { DownstreamChannel, PendingServerRequest } from '../../downstream.ts';

/** Maximum number of pending requests of one call, or of one upstream session. */
export const MAX_PENDING_REQUESTS = 32;

/** Both ends of relayed server requests. */
export interface ServerRequestRoute {
  /** Returns the channel of the client's session. */
  channel(): DownstreamChannel;
  /** Sends the client a message, on the stream that the requests belong to. */
  send(text: string): void;
  /** Sends the upstream a message; resolves once it was accepted, rejects with `UpstreamError`. */
  post(text: string): Promise<void>;
}

interface RelayedRequest extends PendingServerRequest {
  readonly channel: DownstreamChannel;
  /** The id at the upstream, as JSON text. */
  readonly upstreamId: string;
}

/**
 * Relays the requests of an upstream to a legacy client (sampling, elicitation, roots, ping and any others), from the stream of a
 * call or the notification stream of a session: each is sent under an id of ours and its response is returned under the
 * upstream's id. Only the session that got the request can respond to it.
 */
export class RelayedServerRequests implements ServerRequests {
  readonly #route: ServerRequestRoute;
  readonly #pending = new Set<RelayedRequest>();

  constructor(route: ServerRequestRoute) {
    this.#route = route;
  }

  get pending(): number {
    return this.#pending.size;
  }

  relay(text: string): boolean {
    if (this.#pending.size >= MAX_PENDING_REQUESTS) return false;
    const channel = this.#route.channel();
    const token = progressTokenText(text);
    const { idText } = channel.addServerRequest((idText) => {
      const request: RelayedRequest = {
        idText,
        channel,
        upstreamId: memberText(text, 'id') ?? 'null',
        onResponse: (response) => this.#onResponse(request, response),
        onProgress: (progress) => {
          if (token !== undefined) this.#post(withParam(progress, 'progressToken', token));
        },
        onAbandoned: () => this.#fail(request),
      };
      this.#pending.add(request);
      return request;
    });
    this.#route.send(withClientId(text, idText));
    return true;
  }

  onCancelled(text: string): void {
    const requestId = paramText(text, 'requestId');
    for (const request of this.#pending) {
      if (request.upstreamId !== requestId) continue;
      this.#remove(request);
      this.#route.send(withParam(text, 'requestId', request.idText));
    }
  }

  cancelAll(): void {
    for (const request of this.#pending) {
      this.#remove(request);
      const params = `{"requestId":${request.idText},"reason":"the request that caused it has ended"}`;
      this.#route.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`);
    }
  }

  failAll(): void {
    for (const request of this.#pending) {
      request.channel.removeServerRequest(request);
      this.#fail(request);
    }
  }

  #fail(request: RelayedRequest): void {
    this.#pending.delete(request);
    const error = `{"code":${INTERNAL_ERROR},"message":"the client disconnected without a response"}`;
    this.#post(`{"jsonrpc":"2.0","id":${request.upstreamId},"error":${error}}`);
  }

  #onResponse(request: RelayedRequest, { text, idRange }: ResponseMessage): Promise<void> {
    this.#pending.delete(request);
    return this.#route.post(applyEdits(text, [{ ...idRange, text: request.upstreamId }]));
  }

  #remove(request: RelayedRequest): void {
    this.#pending.delete(request);
    request.channel.removeServerRequest(request);
  }

  /** Sends a message that may be lost. */
  #post(text: string): void {
    this.#route.post(text).catch(() => undefined);
  }
}

/** Returns the request with an id of ours, which is also its progress token. */
function withClientId(text: string, idText: string): string {
  return replaceAt(replaceAt(text, ['id'], idText), ['params', '_meta', 'progressToken'], idText);
}
