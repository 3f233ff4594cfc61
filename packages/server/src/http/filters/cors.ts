import { z } from 'zod';
import { parseOrigin } from '../address.ts';
import { conditions, type Filter } from '../chain.ts';
import type { HttpExchange } from '../exchange.ts';
import { TOKEN } from '../header-lines.ts';
import type { Outcome } from '../outcome.ts';
import { commaList, headerName, InvalidSettingError, method, textSchema } from '../settings.ts';

/** Placeholder for `*` while the rest of an origin is parsed; no origin has this name. */
const ANY_SUBDOMAIN = 'any-subdomain';

const allowedOrigin = textSchema(
  '*, an origin such as https://console.example.com, or its subdomains: https://*.example.com',
  (text) => {
    const subdomains = /^[a-z][a-z\d+.-]*:\/\/\*\./i.test(text);
    if (text !== '*' && text.replace('://*.', '://').includes('*'))
      throw new InvalidSettingError('has a * outside of a leading subdomain');
    return subdomains ? parseOrigin(text.replace('*', ANY_SUBDOMAIN)).replace(ANY_SUBDOMAIN, '*') : parseOrigin(text);
  },
);

/** A header name, or a prefix followed by `*`. */
const headerPattern = headerName.regex(/^[^*]*\*?$/, { error: 'must not have a * except at the end' });

/** Settings of the `cors` filter. */
export const corsSettings = z
  .strictObject({
    filter: z.literal('cors'),
    conditions,
    allow_origins: z.array(allowedOrigin).min(1, { error: 'must name at least one origin' }),
    allow_methods: z.array(method).default(['GET', 'HEAD', 'POST']),
    allow_headers: z.array(headerPattern).default([]),
    expose_headers: z.array(headerName).default([]),
    allow_credentials: z.boolean().default(false),
    max_age: z.int().min(0).default(86_400),
    disallowed_origin_mode: z.enum(['omit', 'reject']).default('omit'),
    allow_null_origin: z.boolean().default(false),
  })
  .refine(({ allow_credentials, allow_origins }) => !(allow_credentials && allow_origins.includes('*')), {
    path: ['allow_credentials'],
    error: 'must not be true if allow_origins contains *; list the origins',
  });

export type CorsSettings = Omit<z.output<typeof corsSettings>, 'filter' | 'conditions'>;

/** Returns the CORS headers of a response to a request with this `Origin`: names and values, alternating. */
export type CorsHeaders = (origin: string | undefined) => readonly string[];

/** Creates the {@link CorsHeaders} of these settings. `*` is returned literally. */
export function corsHeaders(settings: CorsSettings): CorsHeaders {
  const wildcard = settings.allow_origins.includes('*');
  const isAllowed = originMatcher(settings);
  const exposed = settings.expose_headers.join(', ');
  const credentials = settings.allow_credentials ? ['Access-Control-Allow-Credentials', 'true'] : [];
  const common = [...(exposed ? ['Access-Control-Expose-Headers', exposed] : []), ...credentials];
  const wildcardHeaders = ['Access-Control-Allow-Origin', '*', ...common];
  if (wildcard) return () => wildcardHeaders;
  return (origin) =>
    origin !== undefined && isAllowed(origin) ? ['Access-Control-Allow-Origin', origin, ...VARY, ...common] : VARY;
}

const VARY: readonly string[] = ['Vary', 'Origin'];

/** Adds CORS headers to all responses and responds to preflight requests. */
export function cors(settings: CorsSettings): Filter {
  const headersFor = corsHeaders(settings);
  return (exchange) => {
    const { origin } = exchange.headers;
    const headers = headersFor(origin);
    exchange.responseHeaders = headers;
    // `OPTIONS *` concerns the server, and is no preflight of a resource.
    if (exchange.head.method !== 'OPTIONS' || exchange.path === '*') return undefined;
    return preflight(exchange, settings, headers !== VARY || origin === undefined);
  };
}

function preflight(exchange: HttpExchange, settings: CorsSettings, allowed: boolean): Outcome {
  if (!allowed) return { kind: 'plain', status: settings.disallowed_origin_mode === 'reject' ? 403 : 204 };
  const literal = settings.allow_headers.filter((header) => !header.endsWith('*'));
  const headers = [
    'Access-Control-Allow-Methods',
    settings.allow_methods.join(', '),
    'Access-Control-Allow-Headers',
    [...literal, ...requestedByPrefix(exchange, settings)].join(', '),
    'Access-Control-Max-Age',
    String(settings.max_age),
  ];
  return { kind: 'plain', status: 204, headers };
}

/** Returns the requested headers that match a prefix such as `Mcp-Param-*`: their names are known only per request. */
function requestedByPrefix(exchange: HttpExchange, settings: CorsSettings): string[] {
  const prefixes = settings.allow_headers
    .filter((header) => header.endsWith('*'))
    .map((header) => header.slice(0, -1).toLowerCase());
  return commaList(exchange.headers['access-control-request-headers'] ?? '')
    .filter((header) => TOKEN.test(header))
    .filter((header) => prefixes.some((prefix) => header.toLowerCase().startsWith(prefix)));
}

function originMatcher({ allow_origins, allow_null_origin }: CorsSettings): (origin: string) => boolean {
  const exact = new Set(allow_origins);
  const subdomains = allow_origins.filter((origin) => origin.includes('://*.')).map((origin) => origin.split('*'));
  return (origin) =>
    exact.has(origin) ||
    (allow_null_origin && origin === 'null') ||
    subdomains.some(([scheme = '', host = '']) => origin.startsWith(scheme) && origin.endsWith(host));
}
