import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Exit } from '../failure.ts';
import { isExpired } from './bearer.ts';
import { openCredentialStore } from './credential-store.ts';
import type { Credential } from './credentials.ts';

/** `sluice auth status`: what is stored, without asking anybody whether it is still accepted. */
export function statusCommand(context: Context): Command {
  return new Command('status')
    .description('Show the stored credentials for --host (exit code 1 if there are no valid ones)')
    .action(async () => {
      const { host } = context.options();
      const store = openCredentialStore(context.terminal);
      const credential = await store.get(host);
      context
        .output()
        .show({
          host,
          loggedIn: credential !== undefined,
          ...(credential && describeCredential(credential)),
          file: store.file,
        });
      if (credential === undefined || isUnusable(credential)) throw new Exit(1);
    });
}

function describeCredential(credential: Credential): object {
  if (credential.kind === 'token') return { kind: 'token' };
  const { username, authServer, realm, clientId, expiresAt, refreshToken } = credential;
  return {
    kind: 'login',
    username,
    authServer,
    realm,
    clientId,
    ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt).toISOString() }),
    expired: isExpired(credential),
    renewable: refreshToken !== undefined,
  };
}

function isUnusable(credential: Credential): boolean {
  return credential.kind === 'login' && isExpired(credential) && credential.refreshToken === undefined;
}
