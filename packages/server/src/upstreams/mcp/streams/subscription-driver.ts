import type { JsonObject } from '@sluice/protocol/json/parse';
import type { ClientCapabilities } from '@sluice/protocol/mcp/capabilities';
import type { ListenFilter } from '@sluice/protocol/mcp/subscriptions';
import type { ReconnectDelayOptions } from '@sluice/protocol/timing';
import type { PermitOutline } from '../../../access/access.ts';
import type { UpstreamError } from '../../../http/client/errors.ts';
import type { Upstream } from '../upstream.ts';

/** Client of a subscription, as declared to the upstream. */
export interface SubscribingClient {
  readonly clientInfo: Readonly<Record<string, unknown>>;
  readonly capabilities: ClientCapabilities;
  /** Headers besides the protocol's own, names and values alternating: hop count and forwarded client headers. */
  readonly headers: readonly string[];
}

export interface DriverOptions {
  readonly upstream: Upstream;
  readonly client: SubscribingClient;
  /** Lists and tasks to subscribe to. */
  readonly filter: Omit<ListenFilter, 'resourceSubscriptions'>;
  /** Resources to subscribe to. */
  readonly resources?: { readonly permit: PermitOutline; readonly uris: readonly string[] } | undefined;
  /** Modern version (default: the latest). */
  readonly protocolVersion?: string;
  /** Milliseconds for the acknowledgment of a modern upstream (default 10000). */
  readonly acknowledgeMs?: number;
  /** Limit on one event in bytes (default 64 MiB). */
  readonly maxEventBytes?: number;
  readonly delays?: ReconnectDelayOptions;
}

/** Options of one attempt. */
export interface AttemptOptions extends DriverOptions {
  /** Granted in an earlier attempt, so the upstream supports it. */
  readonly wasGranted: boolean;
  /** When the uris accepted so far are granted to a first attempt: milliseconds of `performance.now()`. */
  readonly grantBy: number;
}

/** Callbacks of a {@link SubscriptionDriver}; none from its constructor, none after `close`. */
export interface DriverHandler {
  /** The upstream granted this. Again: notifications may have been missed. */
  onGranted(granted: ListenFilter): void;
  /** A notification, as text and parsed. False pauses until `resume`; what has already arrived is still delivered. */
  onNotification(text: string, value: JsonObject): boolean;
  /** The upstream requests this delay before the next attempt. */
  onRetryMs(retryMs: number): void;
  /**
   * The attempt failed, or has ended without an error. `final`: another one is useless (default: depends on the
   * error).
   */
  onFailed(error: UpstreamError | undefined, final?: boolean): void;
}

/** One attempt to maintain a subscription at an upstream of one era. After `onFailed` it is closed by its handler. */
export interface SubscriptionDriver {
  /** Resumes after `onNotification` returned false. */
  resume(): void;
  /** Ends the subscription upstream. */
  close(): void;
}
