import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { LATEST_MODERN } from '@sluice/protocol/mcp/constants';
import { parseListenFilter } from '@sluice/protocol/mcp/subscriptions';
import { requireOutline } from '../../../access/access.ts';
import { quoted, UpstreamError } from '../../../http/client/errors.ts';
import { requestIds } from '../request-ids.ts';
import { modernEnvelope } from '../rpc-client.ts';
import { MESSAGE_HEADERS } from '../rpc-request.ts';
import {
  type ConnectionEnd,
  type ConnectionHandler,
  MAX_EVENT_BYTES,
  StreamConnection,
} from './reconnecting-stream.ts';
import type { AttemptOptions, DriverHandler, SubscriptionDriver } from './subscription-driver.ts';

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

  constructor(options: AttemptOptions, handler: DriverHandler) {
    const { upstream, client, resources, protocolVersion = LATEST_MODERN, acknowledgeMs = ACKNOWLEDGE_MS } = options;
    const { transport } = upstream;
    if (resources) requireOutline(resources.permit);
    this.#address = transport.address;
    this.#wasGranted = options.wasGranted;
    this.#handler = handler;
    this.#id = requestIds.next();
    const envelope = modernEnvelope(client, protocolVersion);
    const headers = [...MESSAGE_HEADERS, ...envelope.headers(METHOD)];
    const filter = { ...options.filter, resourceSubscriptions: resources?.uris };
    const params = envelope.params({ notifications: filter });
    const body = JSON.stringify({ jsonrpc: '2.0', id: this.#id, method: METHOD, params });
    this.#timer = setTimeout(() => {
      this.#fail('timeout', `did not acknowledge ${METHOD} within ${acknowledgeMs / 1000} s`);
    }, acknowledgeMs).unref();
    const { maxEventBytes: maxBytes = MAX_EVENT_BYTES } = options;
    const read = { id: this.#id, name: METHOD, sessionId: undefined, maxBytes };
    this.#connection = new StreamConnection(transport, { method: 'POST', headers, body }, read, this);
  }

  resume(): void {
    this.#connection.resume();
  }

  /** Aborts the HTTP request, which cancels it upstream. */
  close(): void {
    clearTimeout(this.#timer);
    requestIds.release(this.#id);
    this.#connection.close();
  }

  onMessage(text: string, value: JsonObject): boolean {
    // The modern era has no server requests.
    if (this.#isGranted) return 'id' in value || this.#handler.onNotification(text, value);
    if (value.method === ACKNOWLEDGED) this.#onAcknowledgment(value);
    return true;
  }

  onCursor(_id: string | undefined, retryMs: number | undefined): void {
    if (retryMs !== undefined) this.#handler.onRetryMs(retryMs);
  }

  onClosed({ error, status, value }: ConnectionEnd): void {
    if (isJsonObject(value?.error)) this.#onRpcError(value.error, status);
    else if (error || this.#isGranted) this.#handler.onFailed(error);
    else this.#fail('dropped', `ended ${METHOD} before the acknowledgment`);
  }

  #onAcknowledgment({ params }: JsonObject): void {
    const granted = parseListenFilter(isJsonObject(params) ? params.notifications : undefined);
    clearTimeout(this.#timer);
    this.#isGranted = true;
    this.#handler.onGranted(typeof granted === 'string' ? {} : granted);
  }

  #onRpcError({ code, message, data }: JsonObject, status: number | undefined): void {
    const number = typeof code === 'number' ? code : 0;
    const what = `answered ${METHOD} with error ${number}: ${typeof message === 'string' ? quoted(message) : ''}`;
    const details = { code: number, data, ...(status !== undefined && { status }) };
    this.#handler.onFailed(new UpstreamError('rpc', this.#address, what, details));
  }

  /** There was no acknowledgment: an upstream that has granted the subscription before may do so again. */
  #fail(kind: 'timeout' | 'dropped', what: string): void {
    this.#handler.onFailed(new UpstreamError(kind, this.#address, what), !this.#wasGranted);
  }
}
