import { z } from 'zod';
import { namespaceName } from './fields.ts';

/** Name of a source of principals: a prefix of their ids, so without a slash. */
const sourceName = z
  .string()
  .regex(/^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/, 'must be 1 to 64 lowercase letters, digits, ".", "_" or "-"');

/** Name of a request header, in lower case. */
const headerName = z
  .string()
  .toLowerCase()
  .regex(/^[a-z0-9!#$%&'*+.^`|~-]+$/, 'must be the name of a header, with "-" instead of "_"');

const names = z.array(z.string().min(1, 'must not be empty')).readonly();

const EXPECTED_NAMESPACES = 'must be a list of namespaces, or ["*"]';
/** Namespaces where a credential counts; all of them by default. */
const namespaces = z
  .union([z.tuple([z.literal('*')]), z.array(namespaceName).min(1, EXPECTED_NAMESPACES)], EXPECTED_NAMESPACES)
  .readonly();

const proxy = z.strictObject({
  bare: z.boolean().default(false).describe('Ids and groups of this source have no prefix. At most one source.'),
  trusted: z
    .array(z.union([z.cidrv4(), z.cidrv6()], 'must be an address range, such as 10.0.0.0/8'))
    .min(1, 'must have at least one address range')
    .readonly()
    .describe('Peers whose headers are believed.'),
  user: headerName.default('x-forwarded-user').describe('Header with the id.'),
  groups: headerName.optional().describe('Header with the groups, separated by commas.'),
  person: headerName.optional().describe('Header that names the human across sources.'),
  service_accounts: names.default([]).describe('Globs over the id: these are service accounts.'),
  ignore_authorization: z
    .boolean()
    .default(false)
    .describe('Takes the headers alone, whatever credential comes with them.'),
});

const key = z.strictObject({
  name: sourceName.describe('Id of the service account.'),
  sha256: z
    .array(z.string().regex(/^[0-9a-f]{64}$/, 'must be the SHA-256 of a key: 64 hexadecimal digits in lower case'))
    .min(1, 'must have one hash, or two while the key is exchanged')
    .max(2, 'must have one hash, or two while the key is exchanged')
    .readonly()
    .describe('Hash of the key; two while it is exchanged. `sluice keys create` prints key and hash.'),
  groups: names.default([]),
  for: namespaces.default(['*']).describe('Namespaces where it counts.'),
  management: z.boolean().default(false).describe('Whether it counts on the management listener.'),
  expires: z.iso.date('must be a date, such as 2027-06-30').optional().describe('Last day on which it counts, in UTC.'),
});

/** Who calls: proofs that are accepted on the listeners, and roles on the management listener. */
export const identity = z.strictObject({
  anonymous: z.enum(['allow', 'deny']).default('allow').describe('Whether a request may have no credential.'),
  inference: z.boolean().default(false).describe('`anonymous: deny` covers the inference listener too.'),
  proxy: proxy.optional().describe('Headers of an authenticating proxy.'),
  keys: z.array(key).default([]).describe('Service accounts with a long random key.'),
  roles: z
    .strictObject({ admin: names, operator: names, auditor: names, viewer: names })
    .partial()
    .optional()
    .describe('Groups with a role on the management listener; `*` is every authenticated principal.'),
});

/** See {@link identity}. */
export type IdentitySettings = z.output<typeof identity>;
export type ProxySettings = NonNullable<IdentitySettings['proxy']>;
export type KeySettings = IdentitySettings['keys'][number];
