import { z } from 'zod';

/** The last one that has a date, in milliseconds since 1970. */
const LAST_DATE = 8.64e15;

/** An access token that somebody handed over: nothing is known of it. */
const apiToken = z.object({ kind: z.literal('token'), token: z.string() });

/** What a log-in at an identity provider gave, and what it takes to renew it. */
const login = z.object({
  kind: z.literal('login'),
  accessToken: z.string(),
  refreshToken: z.string().optional(),
  /** When the access token expires, in milliseconds since 1970; undefined when it was not said. */
  expiresAt: z.number().min(0).max(LAST_DATE).optional(),
  username: z.string(),
  authServer: z.string(),
  realm: z.string(),
  clientId: z.string(),
  clientSecret: z.string().optional(),
});

/** Credentials for one host. */
export const credential = z.discriminatedUnion('kind', [apiToken, login]);

/** The file of credentials: by host, as `--host` is spelled after parsing. Each is a {@link credential}, or damaged. */
export const credentialsFile = z.object({ version: z.literal(1), hosts: z.record(z.string(), z.unknown()) });

export type Login = z.infer<typeof login>;
export type Credential = z.infer<typeof credential>;
