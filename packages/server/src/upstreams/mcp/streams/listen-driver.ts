import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import {
  HEADER_HOPS,
  HEADER_METHOD,
  HEADER_PROTOCOL_VERSION,
  LATEST_MODERN,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_PROTOCOL_VERSION,
} from '@sluice/protocol/mcp/constants';
import { parseListenFilter } from '@sluice/protocol/mcp/subscriptions';
import { quoted, UpstreamError } from '../../../http/client/errors.ts';
import { isAnonymousId, isSameId, newRequestId, releaseRequestId } from '../request-ids.ts';
import { MESSAGE_HEADERS } from '../rpc-request.ts';
import { type ConnectionHandler, type ConnectionOutcome, StreamConnection } from './reconnecting-stream.ts';
import type { DriverHandler, DriverOptions, DriverRequest, SubscriptionDriver } from './subscription-driver.ts';

const METHOD = 'subscriptions/listen';
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged';
const ACKNOWLEDGE_MS = 10_000;

/**
 * A `subscriptions/listen` request to a modern upstream (2026-07-28, "Subscriptions"). Messages before the
 * acknowledgment are dropped.
 */
export class ListenDriver implements SubscriptionDriver, ConnectionHandler {
  readonly #address: string;
  readonly #wasGranted: boolean;
  readonly #handler: DriverHandler;
  /** Id of the request. */
  readonly #id: number;
  readonly #connection: StreamConnection;
  /** Until the acknowledgment is overdue. */
  readonly #timer: NodeJS.Timeout;
  #isGranted = false;

  constructor(options: DriverOptions, { filter, wasGranted }: DriverRequest, handler: DriverHandler) {
    const { upstream, client, protocolVersion = LATEST_MODERN, acknowledgeMs = ACKNOWLEDGE_MS } = options;
    const { transport } = upstream;
    this.#address = transport.address;
    this.#wasGranted = wasGranted;
    this.#handler = handler;
    this.#id = newRequestId();
    const hasHops = client.headers.some((name, index) => index % 2 === 0 && name.toLowerCase() === HEADER_HOPS);
    const headers = [
      ...MESSAGE_HEADERS,
      ...(hasHops ? [] : [HEADER_HOPS, '1']),
      ...[HEADER_PROTOCOL_VERSION, protocolVersion],
      ...[HEADER_METHOD, METHOD],
      ...client.headers,
    ];
    const _meta = {
      [META_PROTOCOL_VERSION]: protocolVersion,
      [META_CLIENT_INFO]: client.clientInfo,
      [META_CLIENT_CAPABILITIES]: client.capabilities,
    };
    const params = { notifications: filter, _meta };
    const body = JSON.stringify({ jsonrpc: '2.0', id: this.#id, method: METHOD, params });
    this.#timer = setTimeout(() => {
      this.#fail('timeout', `did not acknowledge ${METHOD} within ${acknowledgeMs / 1000} s`, {}, !wasGranted);
    }, acknowledgeMs).unref();
    const read = { id: this.#id, name: METHOD, sessionId: undefined };
    this.#connection = new StreamConnection(
      transport,
      { method: 'POST', headers, body },
      read,
      this,
      options.maxEventBytes,
    );
  }

  resume(): void {
    this.#connection.resume();
  }

  /** Aborts the HTTP request, which cancels it upstream. */
  close(): void {
    clearTimeout(this.#timer);
    releaseRequestId(this.#id);
    this.#connection.close();
  }

  onStream(): void {
    // Wait for the acknowledgment.
  }

  onMessage(text: string, value: JsonObject): boolean {
    if (typeof value.method !== 'string') this.#onResponse(value);
    // The modern era has no server requests.
    else if (this.#isGranted) return 'id' in value || this.#handler.onNotification(text, value);
    else if (value.method === ACKNOWLEDGED) this.#onAcknowledgment(value);
    return true;
  }

  onCursor(_id: string | undefined, retryMs: number | undefined): void {
    if (retryMs !== undefined) this.#handler.onRetryMs(retryMs);
  }

  onClosed(end: ConnectionOutcome): void {
    if (end.kind === 'answered') return this.#onAnswer(end);
    if (end.error || this.#isGranted) return this.#handler.onFailed(end.error);
    this.#fail('dropped', `ended ${METHOD} before the acknowledgment`, {}, !this.#wasGranted);
  }

  /** The response ends the subscription: gracefully or with an error. */
  #onResponse(value: JsonObject): void {
    if (isJsonObject(value.error) && (isSameId(this.#id, value.id) || isAnonymousId(value.id))) {
      this.#onRpcError(value.error);
    } else if (isSameId(this.#id, value.id)) {
      this.onClosed({ kind: 'ended', error: undefined });
    }
  }

  #onAcknowledgment({ params }: JsonObject): void {
    const granted = parseListenFilter(isJsonObject(params) ? params.notifications : undefined);
    clearTimeout(this.#timer);
    this.#isGranted = true;
    this.#handler.onGranted(typeof granted === 'string' ? {} : granted);
  }

  #onAnswer({ status, value, error }: Extract<ConnectionOutcome, { kind: 'answered' }>): void {
    if (isJsonObject(value?.error)) return this.#onRpcError(value.error, status);
    this.#handler.onFailed(error);
  }

  #onRpcError({ code, message, data }: JsonObject, status?: number): void {
    const number = typeof code === 'number' ? code : 0;
    const text = typeof message === 'string' ? quoted(message) : '';
    const details = { code: number, data, ...(status !== undefined && { status }) };
    this.#fail('rpc', `answered ${METHOD} with error ${number}: ${text}`, details);
  }

  #fail(
    kind: UpstreamError['kind'],
    what: string,
    details: ConstructorParameters<typeof UpstreamError>[3],
    final?: boolean,
  ): void {
    this.#handler.onFailed(new UpstreamError(kind, this.#address, what, details), final);
  }
}
