import { z } from 'zod';
import { labels } from './labels.ts';
import { CONTROLS, entryName, namespaceName } from './names.ts';

/** What no URL has anywhere, as a part of a pattern's class: blanks, backslashes, control characters. */
const NEVER = `\\s\\\\${CONTROLS}`;
/** The host of a URL, as far as a pattern can say what one is: a name, or an IP address, version 6 in brackets. */
const HOST = `(?:\\[[0-9A-Fa-f:.]+\\]|[^/?#@:\\[\\]${NEVER}]+)`;

/**
 * Address of an upstream MCP server: an http or https URL, trimmed, in which nothing has to be repaired to be one.
 * Credentials in it are refused rather than silently not sent: what goes upstream is named by SERVICE_FORWARD_HEADERS.
 */
const upstreamAddress = z
  .string()
  .trim()
  .max(2_048, 'must have at most 2048 characters')
  .refine(
    (text) => /^https?:\/\/[^/?#]/i.test(text) && !new RegExp(`[${NEVER}]`).test(text) && URL.canParse(text),
    'must be an http or https URL',
  )
  .refine((text) => {
    const url = URL.parse(text);
    return url === null || (url.username === '' && url.password === '');
  }, 'must not carry a user name or password')
  .meta({ format: 'uri', pattern: `^[Hh][Tt][Tt][Pp][Ss]?://${HOST}(?::[0-9]*)?(?:[/?#][^${NEVER}]*)?$` });

/** What an upstream says of itself (decisions 2.4). `capabilities` and `extensions` are the names it declares. */
export const serverInfo = z.object({
  serverName: z.string(),
  version: z.string(),
  description: z.string().optional(),
  websiteUrl: z.string().optional(),
  capabilities: z.array(z.string()).readonly(),
  extensions: z.array(z.string()).readonly(),
  instructions: z.string().optional(),
});

/** A forward as it is answered (decisions 2.4). The counts are current; resources include templates. */
export const forward = z
  .object({
    name: z.string(),
    address: z.string(),
    namespace: namespaceName,
    labels,
    prefix: z.string().optional(),
    available: z
      .boolean()
      .describe('Whether the last check, discovery or connection went well. Calls are attempted in any case.'),
    statusMessage: z
      .string()
      .optional()
      .describe('The last failure, and what of the discovered is not served and why.'),
    serverInfo: serverInfo.optional().describe('What the upstream says of itself.'),
    tools_discovered: z.number().int(),
    resources_discovered: z.number().int(),
    prompts_discovered: z.number().int(),
  })
  .meta({ id: 'Forward' });

/** Body of `POST /api/v1/forwards`. Without `namespace` the forward belongs to `default`. */
export const forwardInput = z
  .object({
    name: entryName,
    address: upstreamAddress.describe('An http or https URL without user name and password.'),
    namespace: namespaceName
      .optional()
      .describe('Gets what is discovered; `default` when left out. One that does not exist is created.'),
    labels: labels.optional().describe('Free texts by name.'),
    prefix: z
      .string()
      .regex(/^[A-Za-z0-9_.-]{1,32}$/, 'must be 1 to 32 of A-Z a-z 0-9 _ . -')
      .optional()
      .describe('Put in front of the names of discovered tools and prompts.'),
  })
  .meta({ id: 'ForwardInput' });

/** Answer of `POST /api/v1/forwards/{name}/refreshes`: the forward's name and what it now offers (decisions 4.3). */
export const refreshed = z
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
export type Refreshed = z.infer<typeof refreshed>;
