import { resolve } from 'node:path';

// Second implementation of the pipeline file's semantics, independent of the parser, for tests that compare both. The result for
// an invalid file is undefined.

type Values = Readonly<Record<string, unknown>>;

/**
 * Returns the pipeline for the plain values of a file, in the form of {@link comparablePipeline}; relative paths are resolved
 * against `folder`.
 */
export function expectedMeaning(file: unknown, folder: string): object {
  const { listeners, filter_chains, clusters, body_limits, shutdown_timeout_secs, insecure_options } = map(file);
  const chains = list(filter_chains).map((chain) => {
    const { name, filters } = map(chain);
    return { name, filters: list(filters).map(settings) };
  });
  const limits = map(body_limits);
  const allClusters = [...list(clusters), ...balancerClusters(filter_chains)];
  const wrong = [
    ...[listeners, filter_chains, allClusters].flatMap(duplicates),
    ...unknownKeys(
      [file],
      'listeners filter_chains clusters body_limits shutdown_timeout_secs insecure_options admin runtime',
    ),
    ...unknownKeys(
      list(listeners),
      'name address filter_chains protocol tls downstream_read_timeout_ms max_connections',
    ),
    ...unknownKeys(list(filter_chains), 'name filters'),
    ...unknownKeys(allClusters, 'name endpoints tls connection_timeout_ms'),
    ...unknownKeys([body_limits], 'max_request_bytes max_response_bytes'),
    ...unknownKeys([insecure_options], 'skip_pipeline_validation'),
  ];
  return {
    // No valid file has this value.
    ...(wrong.length > 0 && { wrong }),
    listeners: list(listeners).map((listener) => {
      const { name, address, filter_chains: names, tls, downstream_read_timeout_ms, max_connections } = map(listener);
      return {
        name,
        address: hostAndPort(address),
        chains: names,
        filters: list(names).flatMap((wanted) => chains.find((chain) => chain.name === wanted)?.filters ?? []),
        tls: tls === undefined ? undefined : keyFiles(map(list(map(tls).certificates)[0]), folder),
        readTimeoutMs: downstream_read_timeout_ms,
        maxConnections: max_connections,
      };
    }),
    chains,
    clusters: [...list(clusters), ...balancerClusters(filter_chains)]
      .map(cluster)
      .toSorted((a, b) => (String(a.name) < String(b.name) ? -1 : 1)),
    bodyLimits: { request: limits.max_request_bytes ?? 4_194_304, response: limits.max_response_bytes ?? 67_108_864 },
    shutdownTimeoutMs: milliseconds(shutdown_timeout_secs ?? 30),
    skipValidation: map(insecure_options).skip_pipeline_validation ?? false,
  };
}

function map(value: unknown): Values {
  return typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value)) : {};
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Returns duplicate names. */
function duplicates(entries: unknown): unknown[] {
  const names = list(entries).map((entry) => map(entry).name);
  return names.filter((name, index) => names.indexOf(name) < index);
}

/** Returns unknown keys. */
function unknownKeys(entries: readonly unknown[], known: string): string[] {
  const names = known.split(' ');
  return entries.flatMap((entry) => Object.keys(map(entry))).filter((key) => !names.includes(key));
}

/** Converts seconds; undefined for a value that is not a number. */
function milliseconds(seconds: unknown): unknown {
  return typeof seconds === 'number' ? seconds * 1000 : { seconds };
}

/** Parses `host:port`; an IPv6 host loses its brackets. */
function hostAndPort(value: unknown): object {
  if (typeof value !== 'string') return { value };
  const [, host = '', port = ''] = /^\[?(.*?)\]?:(\d+)$/.exec(value) ?? [];
  return { host, port: Number(port) };
}

function keyFiles({ cert_path, key_path }: Values, folder: string): object {
  const path = (value: unknown) => (typeof value === 'string' ? resolve(folder, value) : { value });
  return { certPath: path(cert_path), keyPath: path(key_path) };
}

/** Returns the clusters of load balancers. */
function balancerClusters(chains: unknown): unknown[] {
  return list(chains)
    .flatMap((chain) => list(map(chain).filters))
    .map(map)
    .flatMap(({ filter, clusters }) => (filter === 'load_balancer' ? list(clusters) : []));
}

function cluster(value: unknown) {
  const values = map(value);
  const { name, endpoints, connection_timeout_ms } = values;
  return {
    name,
    endpoints: list(endpoints).map((endpoint) => {
      if (typeof endpoint === 'string') return { address: hostAndPort(endpoint), weight: 1 };
      const { address, weight = 1 } = map(endpoint);
      return { address: hostAndPort(address), weight };
    }),
    tls: 'tls' in values ? {} : undefined,
    connection_timeout_ms,
  };
}

/** Default settings. */
const DEFAULTS: Readonly<Record<string, Values>> = {
  cors: {
    allow_methods: ['GET', 'HEAD', 'POST'],
    allow_headers: [],
    expose_headers: [],
    allow_credentials: false,
    max_age: 86_400,
    disallowed_origin_mode: 'omit',
    allow_null_origin: false,
  },
  mcp: { on_invalid: 'continue' },
  static_response: { headers: [], body: '' },
  headers: { request_add: [], response_add: [], response_set: [], response_remove: [] },
};

function settings(value: unknown): object {
  const given = map(value);
  const whole = { ...DEFAULTS[String(given.filter)], ...given };
  switch (given.filter) {
    case 'cors':
      return { ...whole, allow_origins: list(given.allow_origins).map((origin) => normalizeOrigin(String(origin))) };
    case 'load_balancer':
      return { ...whole, clusters: [] };
    case 'router':
      return {
        ...whole,
        routes: list(given.routes).map((route) => {
          const { host, ...rest } = map(route);
          return host === undefined ? rest : { ...rest, host: String(host).trim().toLowerCase() };
        }),
      };
    default:
      return whole;
  }
}

/** Normalizes an origin: web origins as URL does, including international names; others to lower case. */
function normalizeOrigin(origin: string): string {
  if (!/^https?:/i.test(origin)) return origin.toLowerCase();
  const subdomains = origin.includes('://*.');
  const normalized = URL.parse(origin.replace('://*.', '://any.'))?.origin ?? origin;
  return subdomains ? normalized.replace('://any.', '://*.') : normalized;
}
