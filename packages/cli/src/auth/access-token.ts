import { Failure } from '../failure.ts';
import { createFetch } from '../http/fetch.ts';
import type { GlobalOptions } from '../options.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { type Credential, openCredentialStore } from './credential-store.ts';

/** An access token this close to its end is renewed before it is used. */
const EXPIRY_MARGIN_MS = 30_000;

/**
 * The access token that requests carry: the given one, the stored one, or none with `--no-auth`. A stored one that has
 * expired is renewed first. Throws {@link Failure} when there is none, or it cannot be renewed or is not to be.
 */
export async function resolveToken(
  options: GlobalOptions,
  terminal: Terminal,
  renew: boolean,
): Promise<string | undefined> {
  const { auth, host } = options;
  switch (auth.kind) {
    case 'token':
      return auth.token;
    case 'none':
      return undefined;
    case 'stored': {
      const token = await readStoredToken(options, terminal, renew);
      if (token !== undefined) return token;
      throw new Failure(
        `no credentials for ${host}: sluice auth login --host ${host}, or give --token or --no-auth (SLUICE_NO_AUTH=1)`,
      );
    }
  }
}

/** The stored access token of the host, renewed when it has expired; undefined when there is none. */
export async function readStoredToken(
  options: GlobalOptions,
  terminal: Terminal,
  renew = true,
): Promise<string | undefined> {
  const { host } = options;
  const store = openCredentialStore(terminal);
  const stored = await store.get(host);
  if (stored === undefined || !isExpired(stored)) return tokenOf(stored);
  if (!renew) throw new Failure(`the log-in at ${host} has expired`);
  return tokenOf(await store.update(host, (current) => renewCredential(current, options, terminal)));
}

/** Another command may have renewed it, or logged out, while we waited for our turn. */
async function renewCredential(
  stored: Credential | undefined,
  options: GlobalOptions,
  terminal: Terminal,
): Promise<Credential | undefined> {
  if (stored?.kind !== 'login' || !isExpired(stored)) return stored;
  const { refreshToken } = stored;
  const login = `sluice auth login --host ${options.host}`;
  if (refreshToken === undefined) throw new Failure(`the log-in at ${options.host} has expired: ${login}`);
  const { renew } = await import('./identity-provider.ts');
  return renew(stored, refreshToken, login, await createFetch(options, terminal));
}

function tokenOf(credential: Credential | undefined): string | undefined {
  return credential?.kind === 'login' ? credential.accessToken : credential?.token;
}

/** Whether a log-in's access token is of no use any more, or soon will be. */
export function isExpired(credential: Credential): boolean {
  return (
    credential.kind === 'login' &&
    credential.expiresAt !== undefined &&
    credential.expiresAt - EXPIRY_MARGIN_MS < Date.now()
  );
}
