import { z } from 'zod';

/** Rights of a caller, besides those that everybody has. */
const right = z.enum(['read', 'read_bodies', 'change_registry', 'administer']);

const time = z.iso.datetime();

/** Who makes a request, and how people sign in. */
export const session = z
  .object({
    principal: z
      .object({
        kind: z.enum(['anonymous', 'user', 'service_account']),
        id: z.string().describe('Empty if anonymous.'),
        source: z
          .string()
          .describe('What has proved it: `proxy`, `keys` or the name of a token issuer; empty if anonymous.'),
        person: z.string().optional().describe('The human behind it, across sources.'),
        groups: z.array(z.string()),
      })
      .describe('The caller; anonymous if its credential is not accepted.'),
    rights: z.array(right).describe('What it may do here.'),
    rejected: z.string().optional().describe('Why its credential is not accepted. Missing without one.'),
    signIn: z
      .object({ expiresAt: time.describe('When it ends.') })
      .optional()
      .describe('The sign-in that the cookie of the request proves. Missing without one.'),
    offer: z
      .object({
        issuer: z.string().optional().describe('Issuer of tokens for people. Missing if none has `sign_in`.'),
        clientId: z.string().optional().describe('Its public client. Missing if none has `sign_in`.'),
        scopes: z.array(z.string()).describe('Scopes to request there.'),
        url: z
          .string()
          .optional()
          .describe('Where a browser signs in here; with `return_to`, it is led back there. Missing if it cannot.'),
        reason: z.string().optional().describe('Why a browser cannot sign in here.'),
      })
      .describe('How people can sign in.'),
  })
  .meta({ id: 'Session' });

/** See {@link session}. */
export type Session = z.output<typeof session>;

/** A sign-in of a person, who uses the console. */
export const signInSession = z
  .object({
    id: z.string().describe('Not the value of its cookie.'),
    principal: z.object({ kind: z.enum(['user', 'service_account']), id: z.string(), source: z.string() }),
    person: z.string().optional(),
    current: z.boolean().describe('It is that of the request.'),
    signedInAt: time,
    refreshedAt: time.describe('When its issuer has last confirmed it.'),
    expiresAt: time,
  })
  .meta({ id: 'SignInSession' });

/** See {@link signInSession}. */
export type SignInSession = z.output<typeof signInSession>;

/** Whether there was a sign-in to end. */
export const signOutResult = z.object({ signedOut: z.boolean() }).meta({ id: 'SignOutResult' });
