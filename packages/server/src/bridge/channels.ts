import { type ChannelOptions, Client, credentials } from '@grpc/grpc-js';

/** Most that a message may have in either direction (decisions 2.12, 8). */
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

const OPTIONS: ChannelOptions = {
  'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  // Retries are ours, by the rules of decisions 4.10.
  'grpc.enable_retries': 0,
  // A service that comes back is found within the time of a call's retries, where the library would wait up to minutes.
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.min_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1_000,
  // A peer that is gone without a word is noticed.
  'grpc.keepalive_time_ms': 30_000,
  'grpc.keepalive_timeout_ms': 10_000,
};

/**
 * The plaintext channels to capability services, one per target (decisions 4.10). A channel connects when it is used and
 * again by itself when its connection breaks.
 */
export class Channels {
  readonly #clients = new Map<string, Client>();

  /** The channel to `host:port`; an IPv6 address stands in brackets. */
  to(target: string): Client {
    let client = this.#clients.get(target);
    if (!client) {
      client = new Client(target, credentials.createInsecure(), OPTIONS);
      this.#clients.set(target, client);
    }
    return client;
  }

  /** Closes the channels to targets that are none of these any more; calls under way finish. */
  keep(targets: ReadonlySet<string>): void {
    for (const [target, client] of this.#clients) {
      if (targets.has(target)) continue;
      this.#clients.delete(target);
      client.close();
    }
  }

  /** Closes all. */
  close(): void {
    this.keep(new Set());
  }
}
