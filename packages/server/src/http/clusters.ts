import { z } from 'zod';
import { addressSchema, formatAddress, type HttpUpstream } from './address.ts';
import type { UpstreamTransport } from './client/client.ts';
import { Egress } from './client/egress.ts';

/** Upstream endpoint of a request. */
export interface Target {
  readonly transport: UpstreamTransport;
  /** `host:port`. */
  readonly server: string;
  /** Prefix of every path; empty, or begins with a slash. */
  readonly pathPrefix: string;
}

interface Endpoint {
  readonly target: Target;
  readonly weight: number;
  /** The endpoint with the highest credit is next (smooth weighted round robin). */
  credit: number;
}

const CONNECT_MS = 10_000;

/** Load-balanced upstream endpoints: weighted round robin. */
class Cluster {
  readonly settings: ClusterSettings;
  readonly #endpoints: readonly Endpoint[];
  readonly #total: number;

  constructor(settings: ClusterSettings, egress: Egress) {
    const { endpoints, tls, connection_timeout_ms, path = '' } = settings;
    this.settings = settings;
    this.#endpoints = endpoints.map(({ address, weight }) => {
      const upstream = { scheme: tls ? 'https' : 'http', ...address, path } as const;
      return { target: targetOf(upstream, egress, connection_timeout_ms), weight, credit: 0 };
    });
    this.#total = endpoints.reduce((sum, { weight }) => sum + weight, 0);
  }

  /** Returns the endpoint of the next request. */
  next(): Target | undefined {
    let best: Endpoint | undefined;
    for (const endpoint of this.#endpoints) {
      endpoint.credit += endpoint.weight;
      if (!best || endpoint.credit > best.credit) best = endpoint;
    }
    if (best) best.credit -= this.#total;
    return best?.target;
  }

  /** Waits for in-flight requests and closes the connections. */
  async close(): Promise<void> {
    await Promise.all(this.#endpoints.map(({ target }) => target.transport.close()));
  }

  /** Aborts in-flight requests and closes the connections. */
  async destroy(): Promise<void> {
    await Promise.all(this.#endpoints.map(({ target }) => target.transport.destroy()));
  }
}

function targetOf(upstream: HttpUpstream, egress: Egress, connectTimeoutMs = CONNECT_MS): Target {
  const { scheme, path } = upstream;
  const server = formatAddress(upstream);
  const options = { connectTimeoutMs, redirects: 'pass', codings: 'pass' } as const;
  return { transport: egress.open(`${scheme}://${server}/`, options), server, pathPrefix: path };
}

/** An endpoint that is a plain address has weight 1. */
const endpoint = z.preprocess(
  (value) => (typeof value === 'string' ? { address: value } : value),
  z.strictObject(
    { address: addressSchema(false), weight: z.int().min(1).max(1_000_000).default(1) },
    {
      error: ({ code }) => (code === 'invalid_type' ? 'must be host:port or a map with address and weight' : undefined),
    },
  ),
);

/** TLS is enabled by the presence of the key, with or without a value. */
const tls = z.preprocess((value) => value ?? {}, z.strictObject({})).optional();

/** Schema of a cluster in a pipeline file. */
export const cluster = z.strictObject({
  name: z.string().min(1, { error: 'must not be empty' }),
  endpoints: z.array(endpoint).min(1, { error: 'must have at least one endpoint' }),
  tls,
  connection_timeout_ms: z.int().min(1).max(600_000).optional(),
});

/** Settings of a cluster. */
export interface ClusterSettings extends Readonly<z.output<typeof cluster>> {
  /** Prefix of every path; begins with `/`. */
  readonly path?: string;
}

/** Returns the first endpoint of a cluster. */
export function upstreamOf({ endpoints, tls, path = '' }: ClusterSettings): HttpUpstream | undefined {
  const [first] = endpoints;
  return first && { scheme: tls ? 'https' : 'http', ...first.address, path };
}

/** Returns the settings with this upstream as the only endpoint, for `SERVICE_INFERENCE_UPSTREAM`. */
export function withUpstream(replaced: ClusterSettings, { scheme, host, port, path }: HttpUpstream): ClusterSettings {
  const { name, connection_timeout_ms } = replaced;
  return {
    name,
    endpoints: [{ address: { host, port }, weight: 1 }],
    ...(scheme === 'https' && { tls: {} }),
    ...(connection_timeout_ms !== undefined && { connection_timeout_ms }),
    ...(path !== '' && { path }),
  };
}

/** Clusters of the pipeline by name. */
export class Clusters {
  readonly #egress: Egress;
  readonly #clusters: Map<string, Cluster>;

  constructor({ clusters }: { readonly clusters: ReadonlyMap<string, ClusterSettings> }, egress = new Egress()) {
    this.#egress = egress;
    this.#clusters = new Map([...clusters].map(([name, settings]) => [name, new Cluster(settings, egress)]));
  }

  /** Returns the endpoint of the next request to a cluster; undefined if the cluster does not exist. */
  next(name: string): Target | undefined {
    return this.#clusters.get(name)?.next();
  }

  /**
   * Replaces the endpoints of a cluster, if it exists, by one upstream; its other settings are unchanged. In-flight requests
   * finish at the previous endpoints.
   */
  replace(name: string, upstream: HttpUpstream): void {
    const previous = this.#clusters.get(name);
    if (!previous) return;
    this.#clusters.set(name, new Cluster(withUpstream(previous.settings, upstream), this.#egress));
    void previous.close();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#clusters.values()].map((cluster) => cluster.destroy()));
  }
}
