import { Command } from 'commander';
import type { Context } from '../context.ts';
import { openCredentialStore } from './credential-store.ts';

/** `sluice auth logout`. */
export function logoutCommand(context: Context): Command {
  return new Command('logout').description('Delete the stored credentials for --host').action(async () => {
    const { host } = context.options();
    const store = openCredentialStore(context.terminal);
    const known = await store.remove(host);
    context.output().done({ host, removed: known }, known ? `logged out at ${host}` : `no credentials for ${host}`);
  });
}
