/** Settings of the service. */
export interface Settings {
  /** Listen address, `host:port`. Port 0 is chosen by the system. */
  readonly listen: string;
  /** Address of this service for Sluice; default: the listen address. */
  readonly address: string | undefined;
  /** Prefix of the service entries: `sample-tools`, `sample-code`, and the engine `sample`. */
  readonly name: string;
  /** Namespace of the tools. */
  readonly namespace: string;
  /** Origins allowed for http-get, which receive its secret: `https://api.example.com`, `http://localhost:8123`. */
  readonly httpOrigins: ReadonlySet<string>;
  /** URL and bearer token of Sluice's management API. */
  readonly sluice: { readonly host: string; readonly token: string | undefined };
}

/** Invalid value of an environment variable. */
export class InvalidSettingError extends Error {}

/** Reads the environment variables listed in README.md; empty is unset. Throws {@link InvalidSettingError}. */
export function readSettings(env: Readonly<Record<string, string | undefined>>): Settings {
  const host = env.SLUICE_HOST || 'localhost:8080';
  const name = env.SAMPLE_NAME || 'sample';
  return {
    // Loopback by default: clients of this port can run code and are not authenticated.
    listen: env.SAMPLE_LISTEN || '127.0.0.1:50051',
    address: env.SAMPLE_ADDRESS || undefined,
    name,
    namespace: env.SAMPLE_NAMESPACE || name,
    httpOrigins: new Set(
      (env.SAMPLE_HTTP_ORIGINS ?? '')
        .split(/[\s,]+/)
        .filter(Boolean)
        .map(parseOrigin),
    ),
    sluice: {
      host: (/^https?:\/\//.test(host) ? host : `http://${host}`).replace(/\/+$/, ''),
      token: env.SLUICE_TOKEN || undefined,
    },
  };
}

/** Normalizes an origin. The scheme is required, because it determines whether secrets are encrypted. */
function parseOrigin(entry: string): string {
  const url = URL.parse(entry);
  if (url && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`) return url.origin;
  throw new InvalidSettingError(
    `invalid origin ${entry} in SAMPLE_HTTP_ORIGINS: expected a value like https://api.example.com`,
  );
}
