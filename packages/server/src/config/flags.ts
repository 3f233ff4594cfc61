import { parseArgs } from 'node:util';
import { ConfigError } from './config-error.ts';
import { quote } from './setting.ts';

/** What the command line asks for (decisions 1.1). Paths are as given. */
export type Flags =
  | { readonly kind: 'help' }
  | { readonly kind: 'version' }
  | {
      readonly kind: 'run';
      readonly pipelineConfig: string | undefined;
      readonly serviceConfig: string | undefined;
      readonly pluginsPath: string | undefined;
    };

/** The answer to `--help`. */
export const USAGE = `Usage: sluice serve [options]

Runs the service: MCP gateway and management API.

Options:
  --pipeline-config <file>  listeners, and what requests go through (YAML); default: the built-in pipeline
  --service-config <file>   forwards and namespaces to register at start (YAML); default: service.yaml, when it exists
  -h, --help                print this and exit
  -v, --version             print the version and exit

Everything else is set by environment variables: SERVICE_MGMT_LISTEN, SERVICE_PERSIST_PATH, RUST_LOG and others.
`;

const PATH_FLAGS: readonly string[] = ['pipeline-config', 'service-config', 'plugins-path'];

/**
 * Parses the command line, without executable and script; a leading `serve` is optional. Help and version win over
 * everything else in it. Throws {@link ConfigError} for what is unknown, given twice or without its value.
 */
export function parseFlags(argv: readonly string[]): Flags {
  const { tokens } = parseArgs({
    args: [...argv],
    options: {
      'pipeline-config': { type: 'string' },
      'service-config': { type: 'string' },
      'plugins-path': { type: 'string' },
      help: { type: 'boolean', short: 'h' },
      version: { type: 'boolean', short: 'v' },
    },
    // The strict mode's messages take several lines and suggest what does not exist here.
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const names = tokens.map((token) => (token.kind === 'option' ? token.name : undefined));
  if (names.includes('help')) return { kind: 'help' };
  if (names.includes('version')) return { kind: 'version' };

  const paths = new Map<string, string>();
  for (const token of tokens) {
    if (token.kind === 'option-terminator') continue;
    if (token.kind === 'positional') {
      if (token.index === 0 && token.value === 'serve') continue;
      throw new ConfigError(`unexpected argument ${quote(token.value)}; see sluice serve --help`);
    }
    if (!PATH_FLAGS.includes(token.name)) {
      throw new ConfigError(`unknown option ${quote(token.rawName)}; see sluice serve --help`);
    }
    const { value } = token;
    // A value that begins with a dash is the next option after a forgotten value; `--flag=-value` says that it is meant.
    if (value === undefined || value === '' || (!token.inlineValue && value.startsWith('-'))) {
      throw new ConfigError(`${token.rawName}: needs a path after it; see sluice serve --help`);
    }
    if (paths.has(token.name)) throw new ConfigError(`${token.rawName}: is given twice; give it once`);
    paths.set(token.name, value);
  }
  return {
    kind: 'run',
    pipelineConfig: paths.get('pipeline-config'),
    serviceConfig: paths.get('service-config'),
    pluginsPath: paths.get('plugins-path'),
  };
}
