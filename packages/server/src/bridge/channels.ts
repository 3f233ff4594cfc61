import { type ChannelCredentials, type ChannelOptions, Client } from '@grpc/grpc-js';
import { serviceAddress } from '@sluice/contract';
import type { Registry } from '../registry/registry.ts';
import type { Services } from '../registry/services.ts';
import { plaintext } from './plaintext.ts';

/** Most that a message may have in either direction (decisions 2.12, 8). */
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

/**
 * How long a channel is kept up that no call uses, in milliseconds. One whose service is gone would go on dialling it for
 * as long; the next call connects again at once.
 */
const REST_AFTER_MS = 5_000;

const OPTIONS: ChannelOptions = {
  'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  // Retries are ours, by the rules of decisions 4.10.
  'grpc.enable_retries': 0,
  // Services are reached as upstreams are: whatever proxy the environment names is not told what they are told.
  'grpc.enable_http_proxy': 0,
  // A service that comes back is found within the 700 ms of a call's retries (the library varies these by a fifth), where
  // it would wait up to minutes; also one that comes back at another address of its name.
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.min_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 400,
  'grpc.dns_min_time_between_resolutions_ms': 1_000,
  // A peer that is gone without a word in a call is noticed. Not sooner: servers take three pings within 5 minutes of
  // silence for an attack and hang up, and code may run silently for as long.
  'grpc.keepalive_time_ms': 120_000,
  'grpc.keepalive_timeout_ms': 10_000,
};

/**
 * The plaintext channels to capability services, one per target (decisions 4.10), there for as long as a registered
 * service has that address. A channel connects when it is used, and again by itself when its connection breaks; what no
 * call uses rests.
 */
export class Channels {
  readonly #clients = new Map<string, Client>();
  readonly #unsubscribe: () => void;
  readonly #credentials: ChannelCredentials;
  readonly #options: ChannelOptions;
  #services: Services;

  constructor(
    registry: Pick<Registry, 'current' | 'onChange'>,
    channelCredentials = plaintext(),
    restAfterMs = REST_AFTER_MS,
  ) {
    this.#credentials = channelCredentials;
    this.#options = { ...OPTIONS, 'grpc.client_idle_timeout_ms': restAfterMs };
    this.#services = registry.current.services;
    this.#unsubscribe = registry.onChange(() => this.#keep(registry.current.services));
  }

  /** The targets that there are channels to. */
  get targets(): readonly string[] {
    return [...this.#clients.keys()];
  }

  /** The channel to `host:port`; an IPv6 address stands in brackets. */
  to(target: string): Client {
    let client = this.#clients.get(target);
    if (!client) {
      // Hosts may be called unix or dns, which the library takes for schemes.
      client = new Client(`dns:${target}`, this.#credentials, this.#options);
      this.#clients.set(target, client);
    }
    return client;
  }

  /** Closes all for good; calls under way finish. */
  close(): void {
    this.#unsubscribe();
    this.#closeAllBut(new Set());
  }

  #keep(services: Services): void {
    // Most changes are to tools, and there may be many services.
    if (services === this.#services) return;
    this.#services = services;
    if (this.#clients.size > 0) this.#closeAllBut(new Set(services.all.map(serviceAddress)));
  }

  #closeAllBut(targets: ReadonlySet<string>): void {
    for (const [target, client] of this.#clients) {
      if (targets.has(target)) continue;
      this.#clients.delete(target);
      client.close();
    }
  }
}
