/** Everything that can be set from outside. */
export interface Settings {
  /** Where to listen: `host:port`. Port 0 lets the system choose. */
  readonly listen: string;
  /** The address that Sluice is to call; undefined: the one that is listened on. */
  readonly address: string | undefined;
  /** What its entries at Sluice are named by: `sample-tools`, `sample-code`, and the engine `sample`. */
  readonly name: string;
  /** The namespace whose agents get the tools. */
  readonly namespace: string;
  /** What http-get may reach, and what it sends its secret to: `https://api.example.com`, `http://localhost:8123`. */
  readonly httpOrigins: ReadonlySet<string>;
  /** Sluice's management API: an http(s) URL, and the token that goes with each request. */
  readonly sluice: { readonly host: string; readonly token: string | undefined };
}

/** A setting that cannot be. The message says what to do. */
export class WrongSetting extends Error {}

/** Reads the environment; the README lists the variables. An empty value counts as unset. Throws {@link WrongSetting}. */
export function settingsOf(env: Readonly<Record<string, string | undefined>>): Settings {
  const host = env.SLUICE_HOST || 'localhost:8080';
  const name = env.SAMPLE_NAME || 'sample';
  return {
    // Whoever reaches this port can run code here, and gRPC asks nobody who they are. So: loopback, unless told otherwise.
    listen: env.SAMPLE_LISTEN || '127.0.0.1:50051',
    address: env.SAMPLE_ADDRESS || undefined,
    name,
    namespace: env.SAMPLE_NAMESPACE || name,
    httpOrigins: new Set(
      (env.SAMPLE_HTTP_ORIGINS ?? '')
        .split(/[\s,]+/)
        .filter(Boolean)
        .map(originOf),
    ),
    sluice: {
      host: (/^https?:\/\//.test(host) ? host : `http://${host}`).replace(/\/+$/, ''),
      token: env.SLUICE_TOKEN || undefined,
    },
  };
}

/** As URLs spell it: in lower case, without the usual port. The scheme has to be there, for it decides who reads along. */
function originOf(entry: string): string {
  const url = URL.parse(entry);
  if (url && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`) return url.origin;
  throw new WrongSetting(
    `SAMPLE_HTTP_ORIGINS has ${entry}, which is no origin: write https://api.example.com or http://localhost:8123`,
  );
}
