/** Everything that can be set from outside. */
export interface Settings {
  /** Where to listen: `host:port`. Port 0 lets the system choose. */
  readonly listen: string;
  /** The address that Sluice is to call; undefined: the one that is listened on. */
  readonly address: string | undefined;
  /** The namespace whose agents get the tools. */
  readonly namespace: string;
  /** What http-get may reach: `host`, or `host:port` where the port is not the usual one of the scheme. */
  readonly httpHosts: ReadonlySet<string>;
  /** Sluice's management API: an http(s) URL, and the token that goes with each request. */
  readonly sluice: { readonly host: string; readonly token: string | undefined };
}

/** Reads the environment; the README lists the variables. An empty value counts as unset. */
export function settingsOf(env: Readonly<Record<string, string | undefined>>): Settings {
  const host = env.SLUICE_HOST || 'localhost:8080';
  return {
    // Whoever reaches this port can run code here, and gRPC asks nobody who they are. So: loopback, unless told otherwise.
    listen: env.SAMPLE_LISTEN || '127.0.0.1:50051',
    address: env.SAMPLE_ADDRESS || undefined,
    namespace: env.SAMPLE_NAMESPACE || 'sample',
    httpHosts: new Set((env.SAMPLE_HTTP_HOSTS ?? '').split(/[\s,]+/).filter((entry) => entry !== '')),
    sluice: {
      host: (/^https?:\/\//.test(host) ? host : `http://${host}`).replace(/\/+$/, ''),
      token: env.SLUICE_TOKEN || undefined,
    },
  };
}
