import type { SettingsOf } from '../../app/config/pipeline/schema.ts';
import type { Filter } from '../chain.ts';
import type { Outcome, RequestContext } from '../context.ts';

/** Settings of the `cors` filter (decisions 1.4). */
export type CorsSettings = Omit<SettingsOf<'cors'>, 'filter' | 'conditions'>;

/** Adds CORS headers to every answer, and answers preflights. `*` is echoed literally. */
export function cors(settings: CorsSettings): Filter {
  const wildcard = settings.allow_origins.includes('*');
  const allows = originMatcher(settings);
  const exposed = settings.expose_headers.join(', ');
  const credentials = settings.allow_credentials ? ['Access-Control-Allow-Credentials', 'true'] : [];
  const common = [...(exposed ? ['Access-Control-Expose-Headers', exposed] : []), ...credentials];
  const everybody = ['Access-Control-Allow-Origin', '*', ...common];
  const nobody = ['Vary', 'Origin'];

  return (context) => {
    const { origin } = context.headers;
    let allowed = true;
    if (wildcard) context.responseHeaders = everybody;
    else if (origin !== undefined && allows(origin)) {
      context.responseHeaders = ['Access-Control-Allow-Origin', origin, 'Vary', 'Origin', ...common];
    } else {
      context.responseHeaders = nobody;
      allowed = origin === undefined;
    }
    return context.method === 'OPTIONS' ? preflight(context, settings, allowed) : undefined;
  };
}

function preflight(context: RequestContext, settings: CorsSettings, allowed: boolean): Outcome {
  if (!allowed) return { kind: 'plain', status: settings.disallowed_origin_mode === 'reject' ? 403 : 204 };
  const headers = [
    'Access-Control-Allow-Methods',
    settings.allow_methods.join(', '),
    'Access-Control-Allow-Headers',
    [...plainHeaders(settings), ...requestedByPrefix(context, settings)].join(', '),
    'Access-Control-Max-Age',
    String(settings.max_age),
  ];
  return { kind: 'plain', status: 204, headers };
}

function plainHeaders(settings: CorsSettings): string[] {
  return settings.allow_headers.filter((header) => !header.endsWith('*'));
}

/** The requested headers that a setting such as `Mcp-Param-*` covers: names are known only to the request. */
function requestedByPrefix(context: RequestContext, settings: CorsSettings): string[] {
  const prefixes = settings.allow_headers
    .filter((header) => header.endsWith('*'))
    .map((header) => header.slice(0, -1).toLowerCase());
  const requested = context.headers['access-control-request-headers'] ?? '';
  return requested
    .split(',')
    .map((header) => header.trim())
    .filter((header) => /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(header))
    .filter((header) => prefixes.some((prefix) => header.toLowerCase().startsWith(prefix)));
}

function originMatcher({ allow_origins, allow_null_origin }: CorsSettings): (origin: string) => boolean {
  const exact = new Set(allow_origins);
  const subdomains = allow_origins
    .filter((origin) => origin.includes('://*.'))
    .map((origin) => origin.split('*'))
    .map(([scheme = '', host = '']) => ({ scheme, host }));
  return (origin) =>
    exact.has(origin) ||
    (allow_null_origin && origin === 'null') ||
    subdomains.some(({ scheme, host }) => origin.startsWith(scheme) && origin.endsWith(host));
}
