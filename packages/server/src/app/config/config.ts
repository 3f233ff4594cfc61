import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { ConfigError, quote } from '../../http/address.ts';
import { VERSION } from '../../telemetry/version.ts';
import type { CallSettings } from '../../upstreams/grpc/unary.ts';
import { loadServiceFile, type ServiceFile, warnUnusedSettings } from './bootstrap-file.ts';
import {
  type Environment,
  type OpenTelemetrySettings,
  openTelemetrySettings,
  parseEnvironment,
  settledBridgeGrpc,
} from './environment.ts';
import { type LoadedPipeline, loadPipeline } from './pipeline/pipeline.ts';

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

/** Everything that the service is told from outside, parsed. Paths are absolute. Nothing changes it after start-up. */
export interface Config extends Omit<Environment, 'bridgeGrpc'> {
  /** The file's that `--pipeline-config` names, or the embedded one, with the environment's say in it. */
  readonly pipeline: LoadedPipeline;
  readonly pluginsPath: string | undefined;
  /** The bootstrap file's content, without what counts elsewhere. */
  readonly bootstrap: Omit<ServiceFile, 'warnings' | 'bridgeGrpc'>;
  /** What is exported to OpenTelemetry collectors. */
  readonly openTelemetry: OpenTelemetrySettings;
  /** The environment's and the file's settings put together. */
  readonly bridgeGrpc: CallSettings;
}

/** Either the service is to run, or only a text is to be printed on standard output (`--help`, `--version`). */
export type Invocation =
  | { readonly kind: 'run'; readonly config: Config }
  | { readonly kind: 'print'; readonly text: string };

/**
 * Puts flags, environment and files together (decisions 1.1 to 1.3). `argv` is without executable and script; relative
 * paths start at `cwd`. Throws {@link ConfigError}. `warnings` of all three are in the configuration.
 */
export async function loadConfig(argv: readonly string[], env: NodeJS.ProcessEnv, cwd: string): Promise<Invocation> {
  const flags = parseFlags(argv);
  if (flags.kind === 'help') return { kind: 'print', text: USAGE };
  if (flags.kind === 'version') return { kind: 'print', text: `${VERSION}\n` };

  const environment = parseEnvironment(env);
  const openTelemetry = openTelemetrySettings(env);
  const absolute = (path: string | undefined) => (path === undefined ? undefined : resolve(cwd, path));
  const { persist } = environment;
  const actionsPath = absolute(environment.actionsPath);
  if (actionsPath !== undefined) await requireFolder('SERVICE_ACTIONS_PATH', actionsPath);

  const pipeline = await loadPipeline(absolute(flags.pipelineConfig), environment);
  const { warnings, bridgeGrpc, ...bootstrap } = await loadServiceFile(flags.serviceConfig, cwd);
  const set = Object.keys(env).filter((name) => env[name] !== '');
  if (flags.pluginsPath !== undefined) set.push('--plugins-path');
  return {
    kind: 'run',
    config: Object.freeze({
      ...environment,
      persist: persist.backend === 'none' ? persist : { ...persist, path: resolve(cwd, persist.path) },
      uiPath: resolve(cwd, environment.uiPath),
      actionsPath,
      pipeline,
      openTelemetry,
      pluginsPath: absolute(flags.pluginsPath),
      bootstrap,
      bridgeGrpc: settledBridgeGrpc(environment.bridgeGrpc, bridgeGrpc),
      warnings: [
        ...environment.warnings,
        ...openTelemetry.warnings,
        ...pipeline.warnings,
        ...warnUnusedSettings(set),
        ...warnings,
      ],
    }),
  };
}

async function requireFolder(variable: string, path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined)
    throw new ConfigError(`${variable}: ${quote(path)} does not exist; accepted: an existing folder`);
  if (!found.isDirectory())
    throw new ConfigError(`${variable}: ${quote(path)} is not a folder; accepted: an existing folder`);
}
