import { unwrap } from '@sluice/contract/client';
import { Command, Option } from 'commander';
import { connect } from '../connection/connect.ts';
import type { Context } from '../context.ts';
import { Exit, Failure } from '../failure.ts';
import { createFetch } from '../http/fetch.ts';
import { parseAccessToken } from '../options.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { isExpired, readStoredToken } from './access-token.ts';
import type { Credential, Login } from './credential.ts';
import { openCredentialStore } from './credential-store.ts';
import type { OAuthClient } from './identity-provider.ts';

/**
 * Returns the secret of an option: its value, or with `-` the first line of stdin, which keeps it out of the process
 * list. Without the option, prompts for it without echo. Throws {@link Failure} without a terminal and for empty input.
 */
async function readSecret(
  given: string | undefined,
  option: string,
  request: string,
  { stdin }: Terminal,
): Promise<string> {
  if (given !== undefined && given !== '-') return given;
  if (given === '-') {
    const [line = ''] = (await stdin.text()).split(/\r?\n/);
    return line;
  }
  if (!stdin.isTerminal) throw new Failure(`no terminal for a prompt: use ${option}, with "-" for standard input`);
  const secret = await stdin.secret(request);
  if (secret === undefined) throw new Failure(`nothing entered: use ${option}, or enter the value at the prompt`);
  return secret;
}

interface LoginOptions {
  readonly username?: string;
  readonly password?: string;
  readonly authServer?: string;
  readonly realm?: string;
  readonly clientId?: string;
  readonly clientSecret?: string;
  readonly apiToken?: string;
  readonly browser?: true;
  readonly device?: true;
  readonly clientCredentials?: true;
}

const PASSWORD_OPTIONS = ['username', 'password', 'authServer', 'realm', 'clientId', 'clientSecret'];
/** Other ways to log in than with a password. */
const METHOD_OPTIONS = ['browser', 'device', 'clientCredentials'];

/** `sluice auth login`: at an identity provider, or with an existing token. */
function loginCommand(context: Context): Command {
  return new Command('login')
    .description('Log in and store the credentials for --host')
    .option('--username <name>', 'User name')
    .option('--password <password>', 'Password (default: prompt), "-" for standard input')
    .option('--auth-server <url>', 'Identity provider URL, for example https://login.example.com')
    .option('--realm <realm>', 'Realm of the identity provider')
    .option('--client-id <id>', 'OAuth client ID')
    .option('--client-secret <secret>', 'OAuth client secret, for confidential clients')
    .addOption(methodOption('--browser', 'Log in in a browser on this machine'))
    .addOption(methodOption('--device', 'Log in in a browser on any machine, with a code'))
    .addOption(methodOption('--client-credentials', 'Log in as the client itself, with its secret, for scripts'))
    .addOption(
      new Option('--api-token <token>', 'Store this token instead of logging in, "-" for standard input').conflicts([
        ...PASSWORD_OPTIONS,
        ...METHOD_OPTIONS,
      ]),
    )
    .addHelpText(
      'after',
      `
Without options, the service names the identity provider, and you log in in a browser. The identity provider and the
client are stored until "sluice auth logout".

Examples:
  sluice auth login --host https://sluice.example.com
  sluice auth login --host https://sluice.example.com --auth-server https://login.example.com \\
    --realm sluice --client-id sluice-cli --username alice
  sluice auth login --auth-server https://login.example.com --realm sluice --client-id sluice-cli --device
  sluice auth login --api-token - < token.txt`,
    )
    .action(async (options: LoginOptions) => {
      const { terminal } = context;
      const { host } = context.options();
      const store = openCredentialStore(terminal);
      const credential =
        options.apiToken !== undefined
          ? await readApiToken(options.apiToken, context)
          : await logIn(options, await store.get(host), context);
      await store.update(host, () => credential);
      const method = credential.kind === 'login' ? `as ${credential.username}` : 'with a token';
      context.output().done({ host, kind: credential.kind }, `logged in to ${host} ${method}`);
    });
}

async function readApiToken(requireOption: string, { terminal }: Context): Promise<Credential> {
  const token = await readSecret(requireOption, '--api-token', '', terminal);
  return { kind: 'token', token: parseAccessToken(token, '--api-token') };
}

/** A way to log in that excludes the others. */
function methodOption(flag: string, description: string): Option {
  const option = new Option(flag, description);
  const others = METHOD_OPTIONS.filter((name) => name !== option.attributeName());
  return option.conflicts([...others, 'username', 'password']);
}

/** Logs in with the given method, or a password. */
async function logIn(options: LoginOptions, known: Credential | undefined, context: Context): Promise<Login> {
  const { terminal } = context;
  const before: Partial<Login> = known?.kind === 'login' ? known : {};
  const named = await findNamedClient(options, before, context);
  if (named) return logInAt(named, options, context);
  const authServer = parseAuthServer(requireOption(options.authServer ?? before.authServer, '--auth-server'));
  const realm = requireOption(options.realm ?? before.realm, '--realm');
  const clientId = requireOption(options.clientId ?? before.clientId, '--client-id');
  // The client secret must not be sent for another client.
  const isSameClient = clientId === before.clientId && authServer === before.authServer && realm === before.realm;
  const clientSecret = options.clientSecret ?? (isSameClient ? before.clientSecret : undefined);
  const client = { authServer, realm, clientId, ...(clientSecret !== undefined && { clientSecret }) };
  const provider = await import('./identity-provider.ts');
  const send = await createFetch(context.options(), terminal);
  if (options.device) return provider.logInWithDevice(client, terminal, send);
  if (options.browser) return provider.logInWithBrowser(client, terminal, send);
  if (options.clientCredentials) {
    const secret = await readSecret(clientSecret, '--client-secret', `Secret of ${clientId}: `, terminal);
    return provider.logInAsClient({ ...client, clientSecret: secret }, send);
  }
  const username = requireOption(options.username ?? before.username, '--username');
  const password = await readSecret(options.password, '--password', `Password for ${username}: `, terminal);
  return provider.logIn(client, username, password, send);
}

/** The client that the service names for the login of people; undefined if one is given or stored, or if it names none. */
async function findNamedClient(
  { authServer, realm, clientId, username, password, clientCredentials }: LoginOptions,
  before: Partial<Login>,
  context: Context,
): Promise<OAuthClient | undefined> {
  const isGiven = [authServer, realm, clientId, username, password, clientCredentials, before.authServer].some(Boolean);
  return isGiven ? undefined : (await readSession(context))?.client;
}

/** Logs in at the identity provider that the service has named, in a browser. Throws {@link Failure} if the service rejects the token. */
async function logInAt(client: OAuthClient, { device, browser }: LoginOptions, context: Context): Promise<Login> {
  const { terminal } = context;
  const provider = await import('./identity-provider.ts');
  const send = await createFetch(context.options(), terminal);
  const notice = `${context.options().host} names the identity provider ${client.issuer}, and gets your access token (client ${client.clientId})`;
  terminal.stderr.write(`${sanitizeLine(notice)}\n`);
  const logIn = device ? provider.logInWithDevice : browser ? provider.logInWithBrowser : provider.logInInteractively;
  const login = await logIn(client, terminal, send);
  const session = await readSession(context, login.accessToken);
  if (session === undefined || session.rejected === undefined)
    return { ...login, username: session?.id ?? login.username };
  throw new Failure(
    `${context.options().host} does not accept the access token of ${client.issuer}: ${session.rejected}`,
    {
      notes: ['its audience must be one of management_audiences of the issuer, in identity.tokens of the service'],
    },
  );
}

/** What a service says about a caller, and how people log in. */
interface ServiceSession {
  /** Undefined if it is anonymous. */
  readonly id: string | undefined;
  /** Why it does not accept the token. */
  readonly rejected: string | undefined;
  readonly client: OAuthClient | undefined;
}

/** Asks the service; undefined if it does not say, such as an earlier release, or a proxy in front of it. */
async function readSession(context: Context, token?: string): Promise<ServiceSession | undefined> {
  const auth = token === undefined ? ({ kind: 'none' } as const) : ({ kind: 'token', token, from: 'option' } as const);
  try {
    const client = await connect({ ...context.options(), auth }, context.terminal);
    const { principal, rejected, offer } = await unwrap(client.GET('/api/v1/session'));
    const { issuer, clientId, scopes } = offer;
    return {
      id: principal.id || undefined,
      rejected,
      client: issuer === undefined || clientId === undefined ? undefined : { issuer, clientId, scopes },
    };
  } catch {
    return undefined;
  }
}

function requireOption(value: string | undefined, option: string): string {
  if (value) return value;
  throw new Failure(`${option} is required to log in; use --api-token to store a token instead`);
}

function parseAuthServer(text: string): string {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '') {
    throw new Failure('--auth-server: expected an http:// or https:// URL such as https://login.example.com');
  }
  if (url.username !== '' || url.password !== '')
    throw new Failure('--auth-server: must not contain a user name or password');
  return url.href.replace(/\/+$/, '');
}

function logoutCommand(context: Context): Command {
  return new Command('logout').description('Delete the stored credentials for --host').action(async () => {
    const { host } = context.options();
    const store = openCredentialStore(context.terminal);
    const known = await store.remove(host);
    context.output().done({ host, removed: known }, known ? `logged out of ${host}` : `no credentials for ${host}`);
  });
}

/** `sluice auth status`: shows stored credentials, without a request. */
function statusCommand(context: Context): Command {
  return new Command('status')
    .description('Show the stored credentials for --host (exit code 1 if there are no valid ones)')
    .action(async () => {
      const { host } = context.options();
      const store = openCredentialStore(context.terminal);
      const credential = await store.get(host);
      context.output().show({
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
  const { username, authServer, realm, issuer, clientId, expiresAt } = credential;
  return {
    kind: 'login',
    username,
    ...(issuer === undefined ? { authServer, realm } : { issuer }),
    clientId,
    ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt).toISOString() }),
    expired: isExpired(credential),
    renewable: isRenewable(credential),
  };
}

function isUnusable(credential: Credential): boolean {
  return credential.kind === 'login' && isExpired(credential) && !isRenewable(credential);
}

function isRenewable({ refreshToken, grant }: Login): boolean {
  return refreshToken !== undefined || grant !== undefined;
}

interface TokenOptions {
  readonly get?: true;
  readonly unmask?: true;
  readonly set?: string;
  readonly clear?: true;
}

/** `sluice auth token`: prints, stores or deletes the token. */
function tokenCommand(context: Context): Command {
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
        if (token === undefined) throw new Failure(`no token for ${host}: run "sluice auth login --host ${host}"`);
        const printed = unmask ? token : maskToken(token);
        output.done({ host, token: printed }, printed);
      } else throw new Failure('missing option: use --get, --set or --clear');
    });
}

/** `sluice auth`. */
export function authCommand(context: Context): Command {
  return new Command('auth')
    .description('Manage credentials for the management API')
    .addCommand(loginCommand(context))
    .addCommand(logoutCommand(context))
    .addCommand(statusCommand(context))
    .addCommand(tokenCommand(context));
}

/** Masks a token, leaving enough to recognize it. */
function maskToken(token: string): string {
  return token.length < 32 ? '********' : `${token.slice(0, 4)}********${token.slice(-4)}`;
}
