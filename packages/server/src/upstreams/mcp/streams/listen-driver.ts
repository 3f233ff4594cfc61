import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { LATEST_MODERN } from '@sluice/protocol/mcp/constants';
import { parseListenFilter } from '@sluice/protocol/mcp/subscriptions';
import { requireOutline } from '../../../access/access.ts';
import { quoted, UpstreamError } from '../../../http/client/errors.ts';
import { requestIds } from '../request-ids.ts';
import type { ResponseEnd, RpcResponseHandler } from '../response-handler.ts';
import { ResponseReader } from '../response-reader.ts';
import { modernEnvelope } from '../rpc-client.ts';
import { MESSAGE_HEADERS } from '../rpc-request.ts';
import { unusableResponse } from '../unusable-response.ts';
import { MAX_EVENT_BYTES } from './reconnecting-stream.ts';
import type { AttemptOptions, DriverHandler, SubscriptionDriver } from './subscription-driver.ts';

const METHOD = 'subscriptions/listen';
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged';
const ACKNOWLEDGE_MS = 10_000;

/**
 * A `subscriptions/listen` request to a modern upstream (2026-07-28, "Subscriptions"). Messages before the
 * acknowledgment are dropped.
 */
export class ListenDriver implements SubscriptionDriver, RpcResponseHandler {
  readonly #address: string;
  readonly #wasGranted: boolean;
  readonly #handler: DriverHandler;
  /** Id of the request. */
  readonly #id: number;
  readonly #reader: ResponseReader;
  /** Until the acknowledgment is overdue. */
  readonly #timer: NodeJS.Timeout;
  #isGranted = false;
  #closed = false;

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
    this.#reader = new ResponseReader(transport.address, read, this);
    this.#reader.send(transport, { method: 'POST', headers, body });
  }

  resume(): void {
    this.#reader.resume();
  }

  /** Aborts the HTTP request, which cancels it upstream. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    requestIds.release(this.#id);
    this.#reader.abort();
  }

  onMessage(text: string, value: JsonObject): void {
    // The modern era has no server requests.
    if (this.#isGranted && !('id' in value)) {
      if (!this.#handler.onNotification(text, value)) this.#reader.pause();
    } else if (value.method === ACKNOWLEDGED && !this.#isGranted) this.#onAcknowledgment(value);
  }

  onCursor(_id: string | undefined, retryMs: number | undefined): void {
    if (retryMs !== undefined) this.#handler.onRetryMs(retryMs);
  }

  onEnd(end: ResponseEnd): void {
    if (this.#closed) return;
    const error = this.#errorOf(end);
    if ('value' in end && isJsonObject(end.value?.error)) this.#onRpcError(end.value.error);
    else if (error || this.#isGranted) this.#handler.onFailed(error);
    else this.#fail('dropped', `ended ${METHOD} before the acknowledgment`);
  }

  /** The error of a connection; undefined if its stream has ended regularly. */
  #errorOf(end: ResponseEnd): UpstreamError | undefined {
    const { status, headers, isStream } = this.#reader;
    if (end.kind === 'response' && !isStream) {
      const { text, value } = end;
      const response = { request: METHOD, status, headers, body: Buffer.from(text), value };
      return unusableResponse(this.#address, response);
    }
    if (!('error' in end) || (end.kind === 'interrupted' && end.isRegular)) return undefined;
    if (end.error instanceof UpstreamError) return end.error;
    const what = 'sent a message that could not be handled';
    return new UpstreamError('invalid', this.#address, what, { cause: end.error });
  }

  #onAcknowledgment({ params }: JsonObject): void {
    const granted = parseListenFilter(isJsonObject(params) ? params.notifications : undefined);
    clearTimeout(this.#timer);
    this.#isGranted = true;
    this.#handler.onGranted(typeof granted === 'string' ? {} : granted);
  }

  #onRpcError({ code, message, data }: JsonObject): void {
    const { status, isStream } = this.#reader;
    const number = typeof code === 'number' ? code : 0;
    const what = `answered ${METHOD} with error ${number}: ${typeof message === 'string' ? quoted(message) : ''}`;
    const details = { code: number, data, ...(!isStream && { status }) };
    this.#handler.onFailed(new UpstreamError('rpc', this.#address, what, details));
  }

  /** There was no acknowledgment: an upstream that has granted the subscription before may do so again. */
  #fail(kind: 'timeout' | 'dropped', what: string): void {
    this.#handler.onFailed(new UpstreamError(kind, this.#address, what), !this.#wasGranted);
  }
}
