import { z } from 'zod';
import { type HttpUpstream, listenAddress } from '../addresses.ts';
import { settingText } from './setting-text.ts';

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
