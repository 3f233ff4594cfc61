import { type Command, Option } from 'commander';
import { Failure } from './failure.ts';
import type { Terminal } from './terminal/terminal.ts';

/** A token, and who gave it: one of the environment is for the management API alone. */
interface TokenAuth {
  readonly kind: 'token';
  readonly token: string;
  readonly from: 'option' | 'environment';
}

/** The options that every command has (decisions 1.8). */
export interface GlobalOptions {
  /** Where the management API is: http or https, without a slash at the end. */
  readonly host: string;
  /** How to prove who asks: a token given, none at all, or what is stored for the host. */
  readonly auth: TokenAuth | { readonly kind: 'none' | 'stored' };
  /** No check of certificates. */
  readonly insecure: boolean;
  readonly output: 'table' | 'json';
  /** No colours, even on a terminal. */
  readonly plain: boolean;
  /** Says on standard error what is asked for and how long it takes. */
  readonly verbose: boolean;
}

const DEFAULT_HOST = 'http://localhost:8080';

/** Adds the global options to the program. They may stand before or after the command. */
export function addGlobalOptions(program: Command): void {
  program
    .addOption(new Option('--host <url>', 'Management API URL (env: SLUICE_HOST)').default(DEFAULT_HOST))
    .addOption(
      new Option(
        '--token <token>',
        'Access token to send (env: SLUICE_TOKEN; default: the one stored by "sluice auth login")',
      ),
    )
    .addOption(new Option('--no-auth', 'Send no credentials (env: SLUICE_NO_AUTH=1)').conflicts('token'))
    .addOption(new Option('--insecure', 'Skip TLS certificate verification'))
    .addOption(new Option('--output <format>', 'Output format').choices(['table', 'json']).default('table'))
    .addOption(new Option('--plain', 'Disable colored output'))
    .addOption(new Option('--verbose', 'Log HTTP requests to stderr'));
}

interface OptionValues {
  readonly host: string;
  readonly token?: string;
  readonly auth: boolean;
  readonly insecure?: true;
  readonly output: 'table' | 'json';
  readonly plain?: true;
  readonly verbose?: true;
}

/**
 * The global options as they were given, else as the environment has them. Throws {@link Failure} for a host that is no
 * URL, and for an environment that contradicts itself.
 */
export function parseGlobalOptions(program: Command, env: Terminal['env']): GlobalOptions {
  const { host, insecure = false, output, plain = false, verbose = false, ...given } = program.opts<OptionValues>();
  const ofEnvironment = program.getOptionValueSource('host') === 'default' ? env.SLUICE_HOST : undefined;
  return {
    host: ofEnvironment ? parseHost(ofEnvironment, 'SLUICE_HOST') : parseHost(host, '--host'),
    auth: resolveAuth(given, env),
    insecure,
    output,
    plain,
    verbose,
  };
}

/** A variable that is set to nothing is not set. */
function resolveAuth(
  { token, auth }: Pick<OptionValues, 'token' | 'auth'>,
  { SLUICE_TOKEN, SLUICE_NO_AUTH }: Terminal['env'],
): GlobalOptions['auth'] {
  if (token !== undefined) return { kind: 'token', token: parseAccessToken(token, '--token'), from: 'option' };
  if (!auth) return { kind: 'none' };
  if (SLUICE_NO_AUTH && SLUICE_NO_AUTH !== '0' && SLUICE_NO_AUTH !== '1') {
    throw new Failure('SLUICE_NO_AUTH: must be 1, or 0 for nothing');
  }
  const none = SLUICE_NO_AUTH === '1';
  if (SLUICE_TOKEN && none) throw new Failure('SLUICE_NO_AUTH cannot be used with SLUICE_TOKEN: unset one of them');
  if (SLUICE_TOKEN)
    return { kind: 'token', token: parseAccessToken(SLUICE_TOKEN, 'SLUICE_TOKEN'), from: 'environment' };
  return { kind: none ? 'none' : 'stored' };
}

function parseHost(text: string, source: string): string {
  // "127.0.0.1:8080" and "localhost:8080" are what people type.
  const url = URL.parse(text.includes('://') ? text : `http://${text}`);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new Failure(`${source}: must be an http or https URL such as ${DEFAULT_HOST}`);
  }
  if (url.username !== '' || url.password !== '')
    throw new Failure(`${source}: must not carry a user name or password`);
  if (url.search !== '' || url.hash !== '') throw new Failure(`${source}: must not carry a query or fragment`);
  const path = url.pathname.replace(/\/+$/, '');
  if (path.endsWith('/api/v1')) {
    throw new Failure(`${source}: leave the path out: ${url.origin}${path.slice(0, -'/api/v1'.length)}`);
  }
  return url.origin + path;
}

/**
 * A token as a header can carry it, without the blanks around it. Throws {@link Failure} for any other, without
 * repeating it; what sends the request would repeat it in its own message.
 */
export function parseAccessToken(text: string, source: string): string {
  const token = text.trim();
  if (token === '') throw new Failure(`${source}: is empty`);
  if (!/^[\x21-\x7e]+$/.test(token)) throw new Failure(`${source}: has characters that no access token has`);
  return token;
}
