import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { createFetch } from '../http/fetch.ts';
import { parseAccessToken } from './access-token.ts';
import { openCredentialStore } from './credential-store.ts';
import type { Credential, Login } from './credentials.ts';
import { readSecret } from './secret-input.ts';

interface LoginOptions {
  readonly username?: string;
  readonly password?: string;
  readonly authServer?: string;
  readonly realm?: string;
  readonly clientId?: string;
  readonly clientSecret?: string;
  readonly apiToken?: string;
}

const PASSWORD_OPTIONS = ['username', 'password', 'authServer', 'realm', 'clientId', 'clientSecret'];

/** `sluice auth login`: by name and password at an identity provider, or with a token that somebody made. */
export function loginCommand(context: Context): Command {
  return new Command('login')
    .description('Log in and store the credentials for --host')
    .option('--username <name>', 'User name')
    .option('--password <password>', 'Password (default: prompt), "-" for standard input')
    .option('--auth-server <url>', 'Identity provider URL, for example https://login.example.com')
    .option('--realm <realm>', 'Realm of the identity provider')
    .option('--client-id <id>', 'OAuth client ID')
    .option('--client-secret <secret>', 'OAuth client secret, for confidential clients')
    .addOption(
      new Option('--api-token <token>', 'Store this token instead of logging in, "-" for standard input').conflicts(
        PASSWORD_OPTIONS,
      ),
    )
    .addHelpText(
      'after',
      `
The identity provider and the client are stored until "sluice auth logout".

Examples:
  sluice auth login --host https://sluice.example.com --auth-server https://login.example.com \\
    --realm sluice --client-id sluice-cli --username alice
  sluice auth login --api-token - < token.txt`,
    )
    .action(async (options: LoginOptions) => {
      const { terminal } = context;
      const { host } = context.options();
      const store = openCredentialStore(terminal);
      const credential =
        options.apiToken !== undefined
          ? await readApiToken(options.apiToken, context)
          : await logInWithPassword(options, await store.get(host), context);
      await store.update(host, () => credential);
      const who = credential.kind === 'login' ? `as ${credential.username}` : 'with a token';
      context.output().done({ host, kind: credential.kind }, `logged in at ${host} ${who}`);
    });
}

async function readApiToken(requireOption: string, { terminal }: Context): Promise<Credential> {
  const token = await readSecret(requireOption, '--api-token', '', terminal);
  return { kind: 'token', token: parseAccessToken(token, '--api-token') };
}

async function logInWithPassword(
  options: LoginOptions,
  known: Credential | undefined,
  context: Context,
): Promise<Login> {
  const { terminal } = context;
  const before: Partial<Login> = known?.kind === 'login' ? known : {};
  const authServer = parseAuthServer(requireOption(options.authServer ?? before.authServer, '--auth-server'));
  const realm = requireOption(options.realm ?? before.realm, '--realm');
  const clientId = requireOption(options.clientId ?? before.clientId, '--client-id');
  const username = requireOption(options.username ?? before.username, '--username');
  // A secret belongs to a client: another client does not get it.
  const same = clientId === before.clientId && authServer === before.authServer && realm === before.realm;
  const clientSecret = options.clientSecret ?? (same ? before.clientSecret : undefined);
  const password = await readSecret(options.password, '--password', `Password of ${username}: `, terminal);
  const { logIn } = await import('./identity-provider.ts');
  const client = { authServer, realm, clientId, ...(clientSecret !== undefined && { clientSecret }) };
  return logIn(client, username, password, await createFetch(context.options(), terminal));
}

function requireOption(value: string | undefined, option: string): string {
  if (value) return value;
  throw new Failure(`${option} is needed to log in with a password; or give --api-token`);
}

function parseAuthServer(text: string): string {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '') {
    throw new Failure('--auth-server: must be an http or https URL such as https://login.example.com');
  }
  if (url.username !== '' || url.password !== '')
    throw new Failure('--auth-server: must not carry a user name or password');
  return url.href.replace(/\/+$/, '');
}
