import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { maskToken, parseAccessToken } from './access-token.ts';
import { readStoredToken } from './bearer.ts';
import { openCredentialStore } from './credential-store.ts';
import { readSecret } from './secret-input.ts';

interface TokenOptions {
  readonly get?: true;
  readonly unmask?: true;
  readonly set?: string;
  readonly clear?: true;
}

/** `sluice auth token`: the stored token itself. */
export function tokenCommand(context: Context): Command {
  return new Command('token')
    .description('Print, store or delete the access token for --host')
    .addOption(new Option('--get', 'Print the token, masked').conflicts(['set', 'clear']))
    .addOption(new Option('--unmask', 'Print the token unmasked').conflicts(['set', 'clear']))
    .addOption(new Option('--set <token>', 'Store a token, "-" for standard input').conflicts('clear'))
    .option('--clear', 'Delete the stored token')
    .addHelpText(
      'after',
      `
Example:
  curl -H "Authorization: Bearer $(sluice auth token --get --unmask)" http://localhost:8080/api/v1/tools`,
    )
    .action(async ({ get, unmask, set, clear }: TokenOptions) => {
      const { terminal } = context;
      const options = context.options();
      const { host } = options;
      const store = openCredentialStore(terminal);
      const output = context.output();
      if (set !== undefined) {
        const token = parseAccessToken(await readSecret(set, '--set', '', terminal), '--set');
        await store.update(host, () => ({ kind: 'token', token }));
        output.done({ host, stored: true }, `stored a token for ${host}`);
      } else if (clear) {
        const known = await store.remove(host);
        output.done({ host, removed: known }, known ? `removed the token for ${host}` : `no token for ${host}`);
      } else if (get || unmask) {
        const token = await readStoredToken(options, terminal);
        if (token === undefined) throw new Failure(`no token for ${host}: sluice auth login --host ${host}`);
        const shown = unmask ? token : maskToken(token);
        output.done({ host, token: shown }, shown);
      } else throw new Failure('auth token: give --get, --set or --clear');
    });
}
