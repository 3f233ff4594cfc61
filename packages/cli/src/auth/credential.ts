import { z } from 'zod';

/** Latest valid date, in milliseconds since 1970. */
const LAST_DATE = 8.64e15;

/** An access token from elsewhere. */
const apiToken = z.object({ kind: z.literal('token'), token: z.string() });

/** Result of a login at an identity provider, and the data to renew it. */
const login = z.object({
  kind: z.literal('login'),
  accessToken: z.string(),
  refreshToken: z.string().optional(),
  /** Expiry of the access token in milliseconds since 1970; undefined when unknown. */
  expiresAt: z.number().min(0).max(LAST_DATE).optional(),
  username: z.string(),
  /** Identity provider with the paths of Keycloak; missing with `issuer`. */
  authServer: z.string().optional(),
  realm: z.string().optional(),
  /** Identity provider that the service has named. */
  issuer: z.string().optional(),
  scopes: z.array(z.string()).optional(),
  clientId: z.string(),
  clientSecret: z.string().optional(),
  /** The login is of the client itself and is renewed with its secret. */
  grant: z.literal('client_credentials').optional(),
});

/** Credentials for one host. */
export const credential = z.discriminatedUnion('kind', [apiToken, login]);

/** Credentials file: by host, in the normalized form of `--host`. Values are {@link credential} or corrupt. */
export const credentialsFile = z.object({ version: z.literal(1), hosts: z.record(z.string(), z.unknown()) });

export type Login = z.infer<typeof login>;
export type Credential = z.infer<typeof credential>;
