import { z } from 'zod';
import { BRIDGE_HINT, isStdioCommand } from '../stdio-command.ts';
import { expose, exposeInput, exposePatch } from './expose.ts';
import { CONTROL_CHARACTERS, entryName, labels, labelsPatch, namespaceName } from './fields.ts';
import { forwardHeaders, forwardHeadersPatch } from './forward-headers.ts';

/** Characters that a URL must not contain, for use in the character class of a pattern. */
const INVALID_URL_CHARACTERS = `\\s\\\\${CONTROL_CHARACTERS}`;
/** Pattern of an absolute URL, which `host:80` is not. */
const ADDRESS = `^[A-Za-z][A-Za-z0-9+.-]*:[^0-9${CONTROL_CHARACTERS}][^${CONTROL_CHARACTERS}]*$`;
/** Pattern of a URL's host: a name, or an IP address, version 6 in brackets. */
const HOST = `(?:\\[[0-9A-Fa-f:.]+\\]|[^/?#@:\\[\\]${INVALID_URL_CHARACTERS}]+)`;

const NOT_A_URL = 'must be a URL such as http://127.0.0.1:3001/mcp';

/**
 * Address of an upstream, trimmed: the service knows which URLs it can use. Credentials are rejected rather than silently dropped:
 * they belong in `headers`.
 */
const upstreamAddress = z
  .string()
  .trim()
  .max(2_048, 'must have at most 2048 characters')
  .refine((text) => new RegExp(ADDRESS).test(text), {
    error: ({ input }) => (isStdioCommand(String(input)) ? `${NOT_A_URL}; ${BRIDGE_HINT}` : NOT_A_URL),
  })
  .refine((text) => {
    const url = URL.parse(text);
    return url === null || (url.username === '' && url.password === '');
  }, 'must not carry a user name or password')
  .meta({ format: 'uri', pattern: ADDRESS });

/** Origin of an address, to which the headers of a forward are bound; the address itself if it has none. */
export function forwardOrigin(address: string): string {
  const origin = URL.parse(address)?.origin;
  return origin === undefined || origin === 'null' ? address : origin;
}

const PROXY = 'must be "none" or the http or https URL of a proxy without a path, such as http://proxy:3128';

/**
 * Proxy of a forward: `none` or a URL. It is stored and returned, so that it has no credentials: those are in the environment
 * of the service only.
 */
export const forwardProxy = z
  .string()
  .trim()
  .max(2_048, 'must have at most 2048 characters')
  .refine((text) => text === 'none' || isProxyUrl(text), PROXY)
  .refine(
    (text) => !/^https?:\/\/[^/]*@/i.test(text),
    'must not carry a user name or password: set them in HTTPS_PROXY or HTTP_PROXY of the service',
  )
  .meta({ pattern: `^(none|[Hh][Tt][Tt][Pp][Ss]?://${HOST}(?::[0-9]*)?/?)$` });

function isProxyUrl(text: string): boolean {
  const url = /^https?:\/\/[^/?#\s\\]+\/?$/i.test(text) ? URL.parse(text) : null;
  return url !== null;
}

/** Server information from an upstream. `capabilities` and `extensions` are lists of names. */
export const serverInfo = z.object({
  serverName: z.string(),
  version: z.string(),
  description: z.string().optional(),
  websiteUrl: z.string().optional(),
  capabilities: z.array(z.string()).readonly(),
  extensions: z.array(z.string()).readonly(),
  instructions: z.string().optional(),
});

/** A forward in responses. `resources_discovered` includes templates. */
export const forward = z
  .object({
    name: z.string(),
    address: z.string(),
    namespace: namespaceName,
    labels,
    prefix: z.string().optional(),
    headers: z
      .record(z.string(), z.string())
      .optional()
      .describe('Headers of all requests to the upstream, as written: references are not resolved.'),
    expose: expose.optional().describe('Exposed entries. All if it is missing.'),
    proxy: z
      .string()
      .optional()
      .describe('Proxy for requests to the upstream, or `none`. If it is missing, that of the environment.'),
    compression: z.boolean().optional().describe('True if the upstream may compress its responses.'),
    available: z
      .boolean()
      .describe('True if the last health check, discovery or connection succeeded. Calls are attempted regardless.'),
    statusMessage: z.string().optional().describe('Last error, and discovered entries that are not served.'),
    serverInfo: serverInfo.optional().describe('Server information from the upstream.'),
    tools_discovered: z.number().int(),
    resources_discovered: z.number().int(),
    prompts_discovered: z.number().int(),
  })
  .meta({ id: 'Forward' });

const prefix = z.string().regex(/^[A-Za-z0-9_.-]{1,32}$/, 'must have 1 to 32 characters from A-Z a-z 0-9 _ . -');

/** Body of `POST /api/v1/forwards`. */
export const forwardInput = z
  .object({
    name: entryName,
    address: upstreamAddress.describe('HTTP or HTTPS URL of the upstream, without user name and password.'),
    namespace: namespaceName
      .optional()
      .describe('Namespace of the discovered entries (default `default`). Created if it does not exist.'),
    labels: labels.optional().describe('Labels.'),
    prefix: prefix.optional().describe('Prefix for the names of discovered tools and prompts.'),
    headers: forwardHeaders
      .optional()
      .describe(
        `Headers of all requests to the upstream. Values contain references to secrets: \${env:SERVICE_SECRET_NAME} for a variable of the service's environment, \${file:name} for a file in SERVICE_SECRETS_PATH. Only accept-language and user-agent may be literal.`,
      ),
    expose: exposeInput.optional().describe('Exposed entries (default: all).'),
    proxy: forwardProxy
      .optional()
      .describe(
        'URL of the HTTP proxy for requests to the upstream, without user name and password, or `none` (default: the proxy of the environment of the service).',
      ),
    compression: z
      .boolean()
      .optional()
      .describe('Whether the upstream may compress its responses with gzip, for slow connections (default: false).'),
  })
  .meta({ id: 'ForwardInput' });

/**
 * Body of `PATCH /api/v1/forwards/{name}`, a JSON merge patch: missing members stay unchanged, null removes or resets.
 */
export const forwardPatch = z
  .strictObject({
    address: upstreamAddress
      .optional()
      .describe('HTTP or HTTPS URL of the upstream. The discovered entries remain until its discovery has succeeded.'),
    namespace: namespaceName
      .nullable()
      .optional()
      .describe('Namespace of the discovered entries, except those that were moved. null: `default`.'),
    labels: labelsPatch.nullable().optional().describe('Labels to set, and with null to remove. null removes all.'),
    prefix: prefix
      .nullable()
      .optional()
      .describe('Prefix for the names of discovered tools and prompts, except renamed ones. null removes it.'),
    headers: forwardHeadersPatch
      .nullable()
      .optional()
      .describe(
        'Headers to set, and with null to remove. null removes all. Required, if only as `{}`, when `address` moves a forward with headers to another origin.',
      ),
    expose: exposePatch
      .nullable()
      .optional()
      .describe('Exposed entries. Takes effect at once, before they are discovered again. null: all.'),
    proxy: forwardProxy
      .nullable()
      .optional()
      .describe('URL of the HTTP proxy for requests to the upstream, or `none`. null: the proxy of the environment.'),
    compression: z
      .boolean()
      .nullable()
      .optional()
      .describe('Whether the upstream may compress its responses. null: false.'),
  })
  .meta({ id: 'ForwardPatch' });

/** Response of `POST /api/v1/forwards/{name}/refreshes`. */
export const refreshResult = z
  .object({
    refreshed: z.string(),
    tools_discovered: z.number().int(),
    resources_discovered: z.number().int(),
    prompts_discovered: z.number().int(),
  })
  .meta({ id: 'Refreshed' });

export type ServerInfo = z.infer<typeof serverInfo>;
export type Forward = z.infer<typeof forward>;
export type ForwardInput = z.infer<typeof forwardInput>;
export type ForwardPatch = z.infer<typeof forwardPatch>;
export type RefreshResult = z.infer<typeof refreshResult>;
