import { z } from 'zod';
import { namespaceName } from './fields.ts';
import { coerceRawNumber } from './json.ts';
import { expectedRevision, revision } from './revisions.ts';

/** Name of a source of principals: a prefix of their ids, so without a slash. */
const sourceName = z
  .string()
  .regex(/^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/, 'must be 1 to 64 lowercase letters, digits, ".", "_" or "-"');

/** Name of a request header, in lower case. */
const headerName = z
  .string()
  .toLowerCase()
  .regex(/^[a-z0-9!#$%&'*+.^`|~-]+$/, 'must be the name of a header, with "-" instead of "_"');

const time = z.iso.datetime({ precision: 3 }).describe('UTC');

const names = z.array(z.string().min(1, 'must not be empty'));

const EXPECTED_NAMESPACES = 'must be a list of namespaces, or ["*"]';
/** Namespaces where a credential counts; all of them by default. */
const namespaces = z.union(
  [z.tuple([z.literal('*')]), z.array(namespaceName).min(1, EXPECTED_NAMESPACES)],
  EXPECTED_NAMESPACES,
);

const proxy = z.strictObject({
  bare: z.boolean().default(false).describe('Ids and groups of this source have no prefix. At most one source.'),
  trusted: z
    .array(z.union([z.cidrv4(), z.cidrv6()], 'must be an address range, such as 10.0.0.0/8'))
    .min(1, 'must have at least one address range')
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
    .describe('Hash of the key; two while it is exchanged. `sluice keys create` prints key and hash.'),
  groups: names.default([]),
  for: namespaces.default(['*']).describe('Namespaces where it counts.'),
  management: z.boolean().default(false).describe('Whether it counts on the management listener.'),
  expires: z.iso.date('must be a date, such as 2027-06-30').optional().describe('Last day on which it counts, in UTC.'),
});

/** Asymmetric signature algorithms: with a symmetric one, everyone who can verify a token can also make one. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const;

/** Longest text of a file, in characters. */
export const MAX_TEXT_FILE = 1024 * 1024;
/** A file by its name and content. The bootstrap file has its path instead. */
const textFile = z.strictObject({ name: z.string().min(1).max(255), text: z.string().max(MAX_TEXT_FILE) });

const EXPECTED_URL = 'must be an http or https URL without credentials, query and fragment';
const url = z.url(EXPECTED_URL).refine((text) => {
  const { protocol, username, password, search, hash } = new URL(text);
  return /^https?:$/.test(protocol) && `${username}${password}${search}${hash}` === '';
}, EXPECTED_URL);

const claimPath = z.string().min(1).max(256);
const audience = z.string().min(1).max(2_048);

const tokenIssuer = z.strictObject({
  name: sourceName.describe('Prefix of its ids and groups.'),
  bare: z.boolean().default(false).describe('Ids and groups of this source have no prefix. At most one source.'),
  issuer: url.describe('Value of the claim `iss`, from whose metadata the keys are read.'),
  upstream_issuer: url.optional().describe('Where the service itself reaches the issuer, if clients use another URL.'),
  jwks_url: z.union([url, textFile]).optional().describe('Where the keys are, instead of the metadata of the issuer.'),
  ca_file: textFile
    .optional()
    .describe('Certificates (PEM) that are trusted for the issuer, beside those of the system.'),
  audiences: z
    .array(z.strictObject({ value: audience, for: namespaces }))
    .default([])
    .describe('Audiences beside the URL of each endpoint, and the namespaces where they count.'),
  management_audiences: z.array(audience).default([]).describe('Audiences of the management listener.'),
  algorithms: z.array(z.enum(ALGORITHMS)).min(1).default(['RS256', 'ES256', 'EdDSA', 'Ed25519']),
  max_lifetime_hours: coerceRawNumber(z.number().positive().max(8_760))
    .default(24)
    .describe('Longest time between `iat` and `exp`.'),
  user: claimPath.default('sub').describe('Claim with the id: its name, or a path with dots.'),
  groups: z.array(claimPath).default([]).describe('Claims with groups.'),
  person: claimPath.optional().describe('Claim that names the human across sources.'),
  service_account: z
    .strictObject({ claim: claimPath, values: names })
    .optional()
    .describe('Tokens in which a value of the claim matches one of these globs are those of service accounts.'),
  sign_in: z
    .strictObject({
      client_id: z.string().min(1).max(256),
      scopes: names.default(['openid', 'profile', 'email']),
      max_hours: coerceRawNumber(z.number().positive().max(720))
        .default(12)
        .describe('When a sign-in ends, however often it is used.'),
    })
    .optional()
    .describe('Public client with which people sign in to console and CLI. At most one issuer.'),
});

/**
 * Who calls: proofs that are accepted on the listeners, and roles on the management listener. It has no secret: keys are stored as
 * hashes, and tokens are verified with public keys.
 */
export const identity = z.strictObject({
  anonymous: z.enum(['allow', 'deny']).default('allow').describe('Whether a request may have no credential.'),
  inference: z.boolean().default(false).describe('`anonymous: deny` covers the inference listener too.'),
  proxy: proxy.optional().describe('Headers of an authenticating proxy.'),
  tokens: z.array(tokenIssuer).default([]).describe('Issuers of bearer tokens (JWT), which are verified here.'),
  keys: z.array(key).default([]).describe('Service accounts with a long random key.'),
  roles: z
    .strictObject({ admin: names, operator: names, auditor: names, viewer: names })
    .partial()
    .optional()
    .describe('Groups with a role on the management listener; `*` is every authenticated principal.'),
});

/** The settings in requests. */
export const identitySettings = identity.meta({ id: 'IdentityInput' });

/** Body of `PUT /api/v1/identity`. */
export const identityInput = z
  .object({ identity: identitySettings, expected_revision: expectedRevision })
  .meta({ id: 'IdentityChange' });

/** The active settings in responses. */
export const activeIdentity = identity.meta({ id: 'Identity' });

/** Revision of the identity settings. */
export const identityRevision = revision.meta({ id: 'IdentityRevision' });

/** Revision with its settings. */
export const identityRevisionContent = revision
  .extend({ identity: activeIdentity })
  .meta({ id: 'IdentityRevisionContent' });

/** A key of a service account, without what it is for clients: its hashes are public. */
const keyStatus = z
  .object({
    name: key.shape.name,
    groups: names,
    for: z.array(z.string()).describe('Namespaces where it counts; `*` is all of them.'),
    management: z.boolean().describe('Whether it counts on the management listener.'),
    expiresAt: time.optional().describe('From when on it is rejected. Missing if it does not expire.'),
    hashes: z
      .array(
        z.object({
          sha256: z.string(),
          lastUsedAt: time.optional().describe('Missing if this replica has not seen it since its start.'),
        }),
      )
      .describe('One, or two while the key is exchanged.'),
  })
  .meta({ id: 'ServiceKeyStatus' });

/** What administrators watch of the active settings. */
export const identityStatus = z
  .object({
    revision: z.number().int().nonnegative().describe('Active revision; 0 if there is none.'),
    warnings: z
      .array(z.object({ path: z.string(), message: z.string() }))
      .describe('What the settings allow, although most do not want it.'),
    keys: z.array(keyStatus).describe('Keys of service accounts, in the order of the settings.'),
  })
  .meta({ id: 'IdentityStatus' });

/** See {@link identityStatus}. */
export type IdentityStatus = z.output<typeof identityStatus>;
/** See {@link identity}. */
export type IdentitySettings = z.output<typeof identity>;
export type ProxySettings = NonNullable<IdentitySettings['proxy']>;
export type TokenIssuerSettings = IdentitySettings['tokens'][number];
export type KeySettings = IdentitySettings['keys'][number];
