import { z } from 'zod';
import type { Pipeline } from '../app/config/pipeline/pipeline.ts';
import { addressText, type HttpUpstream, InvalidSettingError, listenAddress, type Setting } from './address.ts';
import type { UpstreamTransport } from './client/client.ts';
import { createTransport } from './client/pool.ts';

/** Where one request is sent. */
export interface Target {
  readonly transport: UpstreamTransport;
  /** `host:port`. */
  readonly server: string;
  /** Stands in front of every path; empty, or begins with a slash. */
  readonly pathPrefix: string;
}

interface Turn {
  readonly target: Target;
  readonly weight: number;
  /** What it has coming: the highest is next (smooth weighted round robin). */
  credit: number;
}

const CONNECT_MS = 10_000;

/** Upstreams that serve the same: requests take turns, by weight (decisions 1.4, "cluster"). */
export class Cluster {
  readonly #turns: readonly Turn[];
  readonly #total: number;

  private constructor(turns: readonly Turn[]) {
    this.#turns = turns;
    this.#total = turns.reduce((sum, { weight }) => sum + weight, 0);
  }

  /** As a pipeline file describes it. */
  static of({ endpoints, tls, connection_timeout_ms, path = '' }: ClusterSettings): Cluster {
    return new Cluster(
      endpoints.map(({ address: { host, port }, weight }) => {
        const upstream = { scheme: tls ? 'https' : 'http', host, port, path } as const;
        return { target: targetOf(upstream, connection_timeout_ms), weight, credit: 0 };
      }),
    );
  }

  /** Where the next request is sent. */
  next(): Target | undefined {
    let best: Turn | undefined;
    for (const turn of this.#turns) {
      turn.credit += turn.weight;
      if (!best || turn.credit > best.credit) best = turn;
    }
    if (best) best.credit -= this.#total;
    return best?.target;
  }

  /** Lets requests under way finish, and ends its connections. */
  async close(): Promise<void> {
    await Promise.all(this.#turns.map(({ target }) => target.transport.close()));
  }

  /** Ends everything at once. */
  async destroy(): Promise<void> {
    await Promise.all(this.#turns.map(({ target }) => target.transport.destroy()));
  }
}

function targetOf(upstream: HttpUpstream, connectTimeoutMs = CONNECT_MS): Target {
  const { scheme, path } = upstream;
  const server = addressText(upstream);
  const transport = createTransport(`${scheme}://${server}/`, { connectTimeoutMs, redirects: 'pass' });
  return { transport, server, pathPrefix: path };
}

/** A text that is a setting's value, as an environment variable has it; what is wrong with it is said in its words. */
export function settingText<T>({ parse, accepts }: Setting<T>) {
  return z.string().transform((text, { addIssue }): T => {
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof InvalidSettingError)) throw error;
      addIssue({ code: 'custom', message: `${error.message}; accepted: ${accepts}` });
      return z.NEVER;
    }
  });
}

/** `host:port`, parsed; port 0 only where it is bound to. */
export function address(withPortZero: boolean) {
  return settingText(listenAddress).refine(({ port }) => withPortZero || port > 0, {
    error: 'has port 0, which nothing can be reached at',
  });
}

/** An address alone is one of weight 1. */
const endpoint = z.preprocess(
  (value) => (typeof value === 'string' ? { address: value } : value),
  z.strictObject(
    { address: address(false), weight: z.int().min(1).max(1_000_000).default(1) },
    {
      error: ({ code }) => (code === 'invalid_type' ? 'is not host:port or a map with address and weight' : undefined),
    },
  ),
);

/** That the key is there says that connections are to be secured, with a value or without. */
const secured = z.preprocess((value) => value ?? {}, z.strictObject({})).optional();

/** Where requests are sent on to, as it stands in a file (decisions 1.4). */
export const cluster = z.strictObject({
  name: z.string().min(1, { error: 'is empty' }),
  endpoints: z.array(endpoint).min(1, { error: 'has no endpoint' }),
  tls: secured,
  connection_timeout_ms: z.int().min(1).max(600_000).optional(),
});

/** Where requests are sent on to (decisions 1.4): its endpoints take turns, by weight. */
export interface ClusterSettings extends Readonly<z.output<typeof cluster>> {
  /** What is put in front of every path, for upstreams that have one (decisions 1.2); it begins with `/`. */
  readonly path?: string;
}

/** The upstream of a cluster; of several the first. */
export function upstreamOf({ endpoints, tls, path = '' }: ClusterSettings): HttpUpstream | undefined {
  const [first] = endpoints;
  return first && { scheme: tls ? 'https' : 'http', ...first.address, path };
}

/** The cluster with this upstream in place of its endpoints, as `SERVICE_INFERENCE_UPSTREAM` has it (decisions 1.2). */
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

/** The clusters of the pipeline, by name. */
export class Clusters {
  readonly #settings: ReadonlyMap<string, ClusterSettings>;
  readonly #clusters: Map<string, Cluster>;

  constructor({ clusters }: Pick<Pipeline, 'clusters'>) {
    this.#settings = clusters;
    this.#clusters = new Map([...clusters].map(([name, settings]) => [name, Cluster.of(settings)]));
  }

  /** Where the next request to the cluster of this name is sent; undefined when there is none. */
  next(name: string): Target | undefined {
    return this.#clusters.get(name)?.next();
  }

  /**
   * Puts one upstream in the place of the cluster's, if there is such a cluster, and keeps its other settings. New
   * requests use it, those under way finish.
   */
  replace(name: string, upstream: HttpUpstream): void {
    const settings = this.#settings.get(name);
    if (!settings) return;
    const before = this.#clusters.get(name);
    this.#clusters.set(name, Cluster.of(withUpstream(settings, upstream)));
    void before?.close();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#clusters.values()].map((cluster) => cluster.destroy()));
  }
}
