import { type Command, Option } from 'commander';
import { accessToken } from './auth/access-token.ts';
import { Failure } from './failure.ts';

/** The options that every command has (decisions 1.8). */
export interface GlobalOptions {
  /** Where the management API is: http or https, without a slash at the end. */
  readonly host: string;
  /** How to prove who asks: a token given, none at all, or what is stored for the host. */
  readonly auth: { readonly kind: 'token'; readonly token: string } | { readonly kind: 'none' | 'stored' };
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
    .addOption(new Option('--host <url>', 'where the management API is').default(DEFAULT_HOST))
    .addOption(new Option('--token <token>', 'access token to send; without it, what "sluice auth login" has stored'))
    .addOption(new Option('--no-auth', 'send no credentials').conflicts('token'))
    .addOption(new Option('--insecure', 'do not check TLS certificates'))
    .addOption(new Option('--output <form>', 'how results are printed').choices(['table', 'json']).default('table'))
    .addOption(new Option('--plain', 'no colours'))
    .addOption(new Option('--verbose', 'tell each request on standard error'));
}

interface Values {
  readonly host: string;
  readonly token?: string;
  readonly auth: boolean;
  readonly insecure?: true;
  readonly output: 'table' | 'json';
  readonly plain?: true;
  readonly verbose?: true;
}

/** The global options as they were given. Throws {@link Failure} for a host that is no URL. */
export function globalOptions(program: Command): GlobalOptions {
  const { host, token, auth, insecure = false, output, plain = false, verbose = false } = program.opts<Values>();
  return {
    host: hostUrl(host),
    auth:
      token !== undefined
        ? { kind: 'token', token: accessToken(token, '--token') }
        : { kind: auth ? 'stored' : 'none' },
    insecure,
    output,
    plain,
    verbose,
  };
}

function hostUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new Failure(`--host: must be an http or https URL such as ${DEFAULT_HOST}`);
  }
  if (url.username !== '' || url.password !== '') throw new Failure('--host: must not carry a user name or password');
  if (url.search !== '' || url.hash !== '') throw new Failure('--host: must not carry a query or fragment');
  return url.href.replace(/\/+$/, '');
}
