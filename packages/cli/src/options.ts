import { type Command, Option } from 'commander';
import { Failure } from './failure.ts';
import { OUTPUT_FORMATS, type OutputFormat } from './output/format.ts';
import type { Terminal } from './terminal/terminal.ts';

/** A token and its source: a token from the environment is sent to the management API only. */
interface TokenAuth {
  readonly kind: 'token';
  readonly token: string;
  readonly from: 'option' | 'environment';
}

/** Options of every command. */
export interface GlobalOptions {
  /** Management API URL: http or https, without a trailing slash. */
  readonly host: string;
  /** Authentication: with a given token, without one, or with the credentials stored for the host, if any. */
  readonly auth: TokenAuth | { readonly kind: 'none' | 'stored' };
  /** Skips the verification of TLS certificates. */
  readonly insecure: boolean;
  readonly output: OutputFormat;
  /** Disables colors, also on a terminal. */
  readonly plain: boolean;
  /** Logs requests with their duration to stderr. */
  readonly verbose: boolean;
}

const DEFAULT_HOST = 'http://localhost:8080';

/** Adds the global options to the program. They are accepted before and after the command. */
export function addGlobalOptions(program: Command): void {
  program
    .addOption(
      new Option('--host <url>', 'Management API URL, or a port of this computer (env: SLUICE_HOST)').default(
        DEFAULT_HOST,
      ),
    )
    .addOption(
      new Option(
        '--token <token>',
        'Access token to send (env: SLUICE_TOKEN; default: the one stored by "sluice auth login")',
      ),
    )
    .addOption(
      new Option('--no-auth', 'Send no credentials, not even stored ones (env: SLUICE_NO_AUTH=1)').conflicts('token'),
    )
    .addOption(new Option('--insecure', 'Skip TLS certificate verification'))
    .addOption(new Option('-o, --output <format>', 'Output format').choices(OUTPUT_FORMATS).default('table'))
    .addOption(new Option('--plain', 'Disable colored output'))
    .addOption(new Option('--verbose', 'Log HTTP requests to stderr'));
}

interface OptionValues {
  readonly host: string;
  readonly token?: string;
  readonly auth: boolean;
  readonly insecure?: true;
  readonly output: OutputFormat;
  readonly plain?: true;
  readonly verbose?: true;
}

/**
 * Returns the global options, with defaults from the environment. Throws {@link Failure} for an invalid host URL and
 * for contradicting environment variables.
 */
export function parseGlobalOptions(program: Command, env: Terminal['env']): GlobalOptions {
  const {
    host,
    insecure = false,
    output,
    plain = false,
    verbose = false,
    ...credentials
  } = program.opts<OptionValues>();
  const ofEnvironment = program.getOptionValueSource('host') === 'default' ? env.SLUICE_HOST : undefined;
  return {
    host: ofEnvironment ? parseHost(ofEnvironment, 'SLUICE_HOST') : parseHost(host, '--host'),
    auth: resolveAuth(credentials, env),
    insecure,
    output,
    plain,
    verbose,
  };
}

/** An empty variable counts as not set. */
function resolveAuth(
  { token, auth }: Pick<OptionValues, 'token' | 'auth'>,
  { SLUICE_TOKEN, SLUICE_NO_AUTH }: Terminal['env'],
): GlobalOptions['auth'] {
  if (token !== undefined) return { kind: 'token', token: parseAccessToken(token, '--token'), from: 'option' };
  if (!auth) return { kind: 'none' };
  if (SLUICE_NO_AUTH && SLUICE_NO_AUTH !== '0' && SLUICE_NO_AUTH !== '1') {
    throw new Failure('SLUICE_NO_AUTH: expected 1 or 0');
  }
  const none = SLUICE_NO_AUTH === '1';
  if (SLUICE_TOKEN && none) throw new Failure('SLUICE_NO_AUTH cannot be used with SLUICE_TOKEN: unset one of them');
  if (SLUICE_TOKEN)
    return { kind: 'token', token: parseAccessToken(SLUICE_TOKEN, 'SLUICE_TOKEN'), from: 'environment' };
  return { kind: none ? 'none' : 'stored' };
}

/** Accepts a URL, one without a scheme (`127.0.0.1:8080`), and a port of this computer (`8080`, `:8080`). */
function parseHost(text: string, source: string): string {
  const [, port] = /^:?(\d+)$/.exec(text.trim()) ?? [];
  const address = port === undefined ? text : `localhost:${port}`;
  const url = URL.parse(address.includes('://') ? address : `http://${address}`);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new Failure(`${source} "${text}": expected an http:// or https:// URL such as ${DEFAULT_HOST}, or a port`);
  }
  if (url.username !== '' || url.password !== '')
    throw new Failure(`${source}: must not contain a user name or password`);
  if (url.search !== '' || url.hash !== '') throw new Failure(`${source}: must not contain a query or fragment`);
  const path = url.pathname.replace(/\/+$/, '');
  if (path.endsWith('/api/v1')) {
    throw new Failure(`${source}: omit the path: ${url.origin}${path.slice(0, -'/api/v1'.length)}`);
  }
  return url.origin + path;
}

/**
 * Returns a trimmed token that is valid in a header. Throws {@link Failure} for any other, without the token in the
 * message; `fetch` would print it.
 */
export function parseAccessToken(text: string, source: string): string {
  const token = text.trim();
  if (token === '') throw new Failure(`${source}: is empty`);
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new Failure(`${source}: contains characters that are not allowed in an access token`);
  return token;
}
