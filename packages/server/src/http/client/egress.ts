import type { TransportOptions, UpstreamTransport } from './client.ts';
import { EgressProxies, type ProxySetting } from './egress-proxies.ts';
import { createTransport } from './pool.ts';

/** Options of {@link Egress.open}. */
export interface EgressOptions extends Omit<TransportOptions, 'proxy' | 'sockets' | 'droppedHeaders'> {
  /** Setting of the upstream's forward. */
  readonly proxy?: ProxySetting;
}

/** How requests to all upstreams leave this machine: through which proxies, with how many sockets, and without which headers. */
export class Egress {
  readonly proxies: EgressProxies;
  readonly #shared: Pick<TransportOptions, 'sockets' | 'droppedHeaders'>;

  /** By default there are no proxies and no limit, and nothing is dropped. */
  constructor(
    proxies: EgressProxies = new EgressProxies(),
    shared: Pick<TransportOptions, 'sockets' | 'droppedHeaders'> = {},
  ) {
    this.proxies = proxies;
    this.#shared = shared;
  }

  /** Creates the transport of an http or https URL; does not connect yet. Throws TypeError for an invalid URL. */
  open(address: string, { proxy, ...options }: EgressOptions = {}): UpstreamTransport {
    const shared = this.#shared;
    return createTransport(address, {
      ...options,
      sockets: shared.sockets,
      get droppedHeaders() {
        return shared.droppedHeaders;
      },
      proxy: this.proxies.for(new URL(address), proxy),
    });
  }
}
