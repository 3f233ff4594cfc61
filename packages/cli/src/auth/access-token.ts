import { Failure } from '../failure.ts';
import { createFetch } from '../http/fetch.ts';
import type { GlobalOptions } from '../options.ts';
import type { Terminal } from '../terminal/terminal.ts';
import type { Credential } from './credential.ts';
import { openCredentialStore } from './credential-store.ts';

/** Access tokens are renewed this long before they expire. */
const EXPIRY_MARGIN_MS = 30_000;

/**
 * Returns the access token for requests: the given one, or the one stored for the host (renewed when expired). Returns
 * undefined with `--no-auth`, and when none is stored. Throws {@link Failure} when it cannot or must not be renewed.
 */
export async function resolveToken(
  options: GlobalOptions,
  terminal: Terminal,
  renew: boolean,
): Promise<string | undefined> {
  const { auth } = options;
  switch (auth.kind) {
    case 'token':
      return auth.token;
    case 'none':
      return undefined;
    case 'stored':
      return readStoredToken(options, terminal, renew);
  }
}

/** Returns the stored access token of the host, renewed when expired; undefined when there is none. */
export async function readStoredToken(
  options: GlobalOptions,
  terminal: Terminal,
  renew = true,
): Promise<string | undefined> {
  const { host } = options;
  const store = openCredentialStore(terminal);
  const stored = await store.get(host);
  if (stored === undefined || !isExpired(stored)) return tokenOf(stored);
  if (!renew) throw new Failure(`the login for ${host} has expired`);
  return tokenOf(await store.update(host, (current) => renewCredential(current, options, terminal)));
}

/** Another command may have renewed or removed the credential while this one waited for the lock. */
async function renewCredential(
  stored: Credential | undefined,
  options: GlobalOptions,
  terminal: Terminal,
): Promise<Credential | undefined> {
  if (stored?.kind !== 'login' || !isExpired(stored)) return stored;
  const { refreshToken } = stored;
  const login = `sluice auth login --host ${options.host}`;
  if (stored.grant !== undefined) {
    const { renewAsClient } = await import('./identity-provider.ts');
    return renewAsClient(stored, await createFetch(options, terminal));
  }
  if (refreshToken === undefined) throw new Failure(`the login for ${options.host} has expired: run "${login}"`);
  const { renew } = await import('./identity-provider.ts');
  return renew(stored, refreshToken, login, await createFetch(options, terminal));
}

function tokenOf(credential: Credential | undefined): string | undefined {
  return credential?.kind === 'login' ? credential.accessToken : credential?.token;
}

/** Whether the access token of a login has expired or is about to. */
export function isExpired(credential: Credential): boolean {
  return (
    credential.kind === 'login' &&
    credential.expiresAt !== undefined &&
    credential.expiresAt - EXPIRY_MARGIN_MS < Date.now()
  );
}
