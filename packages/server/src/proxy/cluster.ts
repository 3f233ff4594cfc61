import { addressText, type HttpUpstream } from '../config/addresses.ts';
import type { ClusterSettings } from '../config/pipeline/cluster.ts';
import { createTransport, type UpstreamTransport } from '../transport/transport.ts';

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
