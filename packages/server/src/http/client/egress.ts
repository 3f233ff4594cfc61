import type { TransportOptions, UpstreamTransport } from './client.ts';
import { EgressProxies, type ProxySetting } from './egress-proxies.ts';
import { createTransport } from './pool.ts';
import type { UpstreamSockets } from './upstream-sockets.ts';

/** Options of {@link Egress.open}. */
export interface EgressOptions extends Omit<TransportOptions, 'proxy' | 'sockets'> {
  /** Setting of the upstream's forward. */
  readonly proxy?: ProxySetting;
}

/** How the connections to all upstreams leave this machine: through which proxies, and with how many sockets. */
export class Egress {
  readonly proxies: EgressProxies;
  readonly #sockets: UpstreamSockets | undefined;

  /** By default there are no proxies, and no limit. */
  constructor(proxies: EgressProxies = new EgressProxies(), sockets?: UpstreamSockets) {
    this.proxies = proxies;
    this.#sockets = sockets;
  }

  /** Creates the transport of an http or https URL; does not connect yet. Throws TypeError for an invalid URL. */
  open(address: string, { proxy, ...options }: EgressOptions = {}): UpstreamTransport {
    const sockets = this.#sockets;
    return createTransport(address, { ...options, proxy: this.proxies.for(new URL(address), proxy), sockets });
  }
}
