import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { EgressProxies } from '../../http/client/egress-proxies.ts';
import { referencesIn, type SecretSettings, Secrets } from '../../http/secrets/secrets.ts';
import { ConfigError, quote } from '../../http/settings.ts';
import { VERSION } from '../../telemetry/version.ts';
import type { CallSettings } from '../../upstreams/grpc/grpc-client.ts';
import { ForwardKinds } from '../../upstreams/kinds.ts';
import { type BootstrapFile, loadBootstrapFile } from './bootstrap-file.ts';
import { removedHeaderWarnings, requireOtherSettings } from './bootstrap-identity.ts';
import { type Environment, parseEnvironment, resolveBridgeGrpc } from './environment.ts';
import { type OpenTelemetrySettings, parseOpenTelemetry } from './open-telemetry.ts';
import { loadPipeline } from './pipeline/load.ts';
import type { LoadedPipeline } from './pipeline/pipeline.ts';

/** Configuration of the service from flags, environment and files. Paths are absolute. Immutable after startup. */
export interface Config extends Omit<Environment, 'bridgeGrpc' | 'secretsPath' | 'secretOrigins' | 'uiPath'> {
  /** Folder of the web console, which may be missing; undefined in the headless distribution. */
  readonly uiPath: string | undefined;
  readonly secrets: SecretSettings;
  /** Proxies of the environment. */
  readonly proxies: EgressProxies;
  /** The kinds of forwards. */
  readonly kinds: ForwardKinds;
  /** Pipeline of `--pipeline-config`, or the embedded one, with the environment applied. */
  readonly pipeline: LoadedPipeline;
  /** Undefined for the embedded pipeline. */
  readonly pipelinePath: string | undefined;
  readonly pluginsPath: string | undefined;
  readonly bootstrap: Omit<BootstrapFile, 'warnings' | 'bridgeGrpc'>;
  readonly openTelemetry: OpenTelemetrySettings;
  /** Merged from environment and bootstrap file. */
  readonly bridgeGrpc: CallSettings;
}

/** Run the service, or only print a text on standard output (`--help`, `--version`). */
export type Invocation =
  | { readonly kind: 'run'; readonly config: Config }
  | { readonly kind: 'print'; readonly text: string };

/**
 * Loads the configuration from flags, environment and files, including their warnings. `argv` is without executable and script;
 * relative paths are resolved against `cwd`; `kinds` are those of the forwards. Throws {@link ConfigError}.
 */
export async function loadConfig(
  argv: readonly string[],
  variables: NodeJS.ProcessEnv,
  cwd: string,
  kinds: ForwardKinds = new ForwardKinds(),
): Promise<Invocation> {
  const flags = parseFlags(argv);
  if (flags.kind === 'help') return { kind: 'print', text: USAGE };
  if (flags.kind === 'version') return { kind: 'print', text: `${VERSION}\n` };

  const env = withPort(variables, flags.port, flags.pipelineConfig !== undefined);
  const { secretsPath, secretOrigins, ...environment } = parseEnvironment({
    ...env,
    ...(flags.local && { SERVICE_LOCAL: '1' }),
    ...(flags.logFormat !== undefined && { SERVICE_LOG_FORMAT: flags.logFormat }),
  });
  const openTelemetry = parseOpenTelemetry(env);
  const absolute = (path: string | undefined) => (path === undefined ? undefined : resolve(cwd, path));
  const { persist } = environment;
  const actionsPath = absolute(environment.actionsPath);
  if (actionsPath !== undefined) await requireFolder('SERVICE_ACTIONS_PATH', actionsPath);
  const secrets: SecretSettings = { env: { ...env }, folder: absolute(secretsPath), origins: secretOrigins };
  if (secrets.folder !== undefined) await requireFolder('SERVICE_SECRETS_PATH', secrets.folder);

  const pipelinePath = absolute(flags.pipelineConfig);
  const pipeline = await loadPipeline(pipelinePath, environment);
  const { warnings, bridgeGrpc, ...bootstrap } = await loadBootstrapFile(flags.serviceConfig, cwd, kinds);
  await requireApiKeys(bootstrap, secrets);
  requireOtherSettings({ ...environment, pipeline }, bootstrap.identity);
  const conditions = removedHeaderWarnings(pipeline, bootstrap.identity);
  return {
    kind: 'run',
    config: Object.freeze({
      ...environment,
      persist: persist.backend === 'file' ? { ...persist, path: resolve(cwd, persist.path) } : persist,
      uiPath: consoleFolder(flags.headless ? HEADLESS : environment.uiPath, cwd),
      actionsPath,
      secrets,
      proxies: new EgressProxies(env),
      kinds,
      pipeline,
      pipelinePath,
      openTelemetry,
      pluginsPath: absolute(flags.pluginsPath),
      bootstrap,
      bridgeGrpc: resolveBridgeGrpc(environment.bridgeGrpc, bridgeGrpc),
      warnings: [...environment.warnings, ...openTelemetry.warnings, ...pipeline.warnings, ...conditions, ...warnings],
    }),
  };
}

/** Value of SERVICE_UI_PATH that selects the headless distribution. */
const HEADLESS = 'none';
/** The folder of the console in the image of the full distribution, and in a checkout of the source. */
const INSTALLED_CONSOLE = '/opt/service/admin';
const BUILT_CONSOLE = fileURLToPath(new URL('../../../../admin/dist', import.meta.url));

function consoleFolder(uiPath: string | undefined, cwd: string): string | undefined {
  if (uiPath === HEADLESS) return undefined;
  if (uiPath !== undefined) return resolve(cwd, uiPath);
  return existsSync(BUILT_CONSOLE) ? BUILT_CONSOLE : INSTALLED_CONSOLE;
}

/** Checks the references of LLM connections, except for the content of files, which may be written later. */
async function requireApiKeys(
  { path, llmConnections }: Pick<BootstrapFile, 'path' | 'llmConnections'>,
  settings: SecretSettings,
): Promise<void> {
  const secrets = new Secrets(settings);
  for (const { name, url, apiKey = '' } of llmConnections) {
    const { origin } = new URL(url);
    const isFile = referencesIn(apiKey).some(({ kind }) => kind === 'file');
    const resolved = isFile ? { problem: secrets.problem(apiKey, origin) } : await secrets.resolve(apiKey, origin);
    const problem = 'problem' in resolved ? resolved.problem : undefined;
    if (problem !== undefined) {
      throw new ConfigError(`${path}: llm_connections: api_key of ${quote(name)} ${problem}`);
    }
  }
}

async function requireFolder(variable: string, path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined)
    throw new ConfigError(`${variable}: ${quote(path)} does not exist; expected an existing folder`);
  if (!found.isDirectory())
    throw new ConfigError(`${variable}: ${quote(path)} is not a folder; expected an existing folder`);
}

/** Output of `--help`. */
export const USAGE = `Usage: sluice serve [options]

Run the MCP gateway and its management API

Options:
  --pipeline-config <file>  Pipeline file: listeners and filter chains (YAML; default: the embedded pipeline)
  --service-config <file>   Bootstrap file: entries to register at startup (YAML; default: service.yaml if it exists)
  --plugins-path <folder>   Folder of plugins of the web console
  --port <port>             Port of the management API and console (default: 8080); without --pipeline-config, MCP uses
                            the next port and inference the third one after it
  --log-format <format>     text or json, like SERVICE_LOG_FORMAT (default: text on a terminal, otherwise json)
  --local                   Bind to 127.0.0.1 instead of all interfaces, like SERVICE_LOCAL=1
  --headless                Serve no web console, like SERVICE_UI_PATH=none
  -h, --help                Print help and exit
  -v, --version             Print the version and exit

Environment variables such as SERVICE_MGMT_LISTEN, SERVICE_PERSIST_PATH and RUST_LOG set everything else.
`;

/** The options, and what the value of each is; switches have none. */
const OPTIONS = {
  'pipeline-config': { type: 'string', value: 'path' },
  'service-config': { type: 'string', value: 'path' },
  'plugins-path': { type: 'string', value: 'path' },
  port: { type: 'string', value: 'port' },
  'log-format': { type: 'string', value: 'format' },
  local: { type: 'boolean' },
  headless: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'v' },
} as const;

/** Settings to use instead of the client's options, which do not apply to the service itself. */
const CLIENT_OPTIONS: ReadonlyMap<string, string> = new Map([
  [
    'host',
    'it is the address of a service for the other commands; to choose where this one listens, use --port, --local or ' +
      'set SERVICE_MGMT_LISTEN, SERVICE_MCP_LISTEN and SERVICE_INFERENCE_LISTEN',
  ],
  [
    'token',
    'the service has no token; an authenticating proxy in front of it checks credentials (SERVICE_AUTH_ISSUER)',
  ],
  ['no-auth', 'the service never checks credentials itself; an authenticating proxy in front of it does'],
  ['insecure', 'for certificates of upstreams, set NODE_EXTRA_CA_CERTS'],
  ['output', '--log-format sets the form of the log, RUST_LOG its levels'],
  ['plain', 'set NO_COLOR=1 for a log without colors, or --log-format json'],
  ['verbose', 'set RUST_LOG=debug for a more detailed log'],
]);

/**
 * Parses the command line without executable and script; a leading `serve` is optional. `--help` and `--version` take
 * precedence over everything else. Paths are not resolved. Throws {@link ConfigError} for unknown or duplicate options and missing
 * values.
 */
export function parseFlags(argv: readonly string[]) {
  const { tokens } = parseArgs({
    args: [...argv],
    options: OPTIONS,
    // Messages of the strict mode have several lines and suggest options that do not exist here.
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const names = tokens.map((token) => (token.kind === 'option' ? token.name : undefined));
  if (names.includes('help')) return { kind: 'help' as const };
  if (names.includes('version')) return { kind: 'version' as const };

  const values = new Map<string, string>();
  const switches = new Set<string>();
  for (const token of tokens) {
    if (token.kind === 'option-terminator') continue;
    if (token.kind === 'positional') {
      if (token.index === 0 && token.value === 'serve') continue;
      throw new ConfigError(`unexpected argument ${quote(token.value)}; see sluice serve --help`);
    }
    const option = Object.entries(OPTIONS).find(([name]) => name === token.name)?.[1];
    if (!option) {
      const explanation = token.rawName.startsWith('--') ? CLIENT_OPTIONS.get(token.rawName.slice(2)) : undefined;
      if (explanation !== undefined)
        throw new ConfigError(`sluice serve does not accept ${token.rawName}: ${explanation}`);
      throw new ConfigError(`unknown option ${quote(token.rawName)}; see sluice serve --help`);
    }
    const { value } = token;
    if (option.type === 'boolean') {
      if (value !== undefined) throw new ConfigError(`--${token.name} takes no value; see sluice serve --help`);
      switches.add(token.name);
      continue;
    }
    // A value that starts with a dash is the next option after a missing value, except in `--flag=-value`.
    if (value === undefined || value === '' || (!token.inlineValue && value.startsWith('-'))) {
      throw new ConfigError(`${token.rawName}: missing ${option.value}; see sluice serve --help`);
    }
    if (values.has(token.name)) throw new ConfigError(`${token.rawName} may be specified only once`);
    values.set(token.name, value);
  }
  const port = values.get('port');
  return {
    kind: 'run' as const,
    pipelineConfig: values.get('pipeline-config'),
    serviceConfig: values.get('service-config'),
    pluginsPath: values.get('plugins-path'),
    /** Of the management API; the embedded pipeline's listeners follow. */
    port: port === undefined ? undefined : parsePort(port),
    /** Like SERVICE_LOG_FORMAT; not checked. */
    logFormat: values.get('log-format'),
    /** Like SERVICE_LOCAL=1. */
    local: switches.has('local'),
    /** Like SERVICE_UI_PATH=none. */
    headless: switches.has('headless'),
  };
}

/** Distance of the embedded pipeline's listeners from the port of the management API: 8080, 8081 and 8083. */
export const MCP_PORT_OFFSET = 1;
export const INFERENCE_PORT_OFFSET = 3;

const MAX_PORT = 65_535 - INFERENCE_PORT_OFFSET;

/** Parses `--port`: 0 for any free ports. Throws {@link ConfigError}. */
function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (port <= MAX_PORT) return port;
  throw new ConfigError(
    `--port: ${quote(text)} is not a port: expected 1 to ${MAX_PORT}, or 0 for any free ports; MCP uses the next port, and inference the third one after it`,
  );
}

/**
 * Applies `--port` to the environment: the port of the management API, and of the listeners of the embedded pipeline unless
 * they have variables of their own. The listeners of a pipeline file keep their addresses.
 */
export function withPort(env: NodeJS.ProcessEnv, port: number | undefined, hasPipeline: boolean): NodeJS.ProcessEnv {
  if (port === undefined) return env;
  const after = (offset: number) => `0.0.0.0:${port === 0 ? 0 : port + offset}`;
  const management = env.SERVICE_MGMT_LISTEN ? env.SERVICE_MGMT_LISTEN.replace(/:\d*$/, `:${port}`) : after(0);
  if (hasPipeline) return { ...env, SERVICE_MGMT_LISTEN: management };
  return {
    ...env,
    SERVICE_MGMT_LISTEN: management,
    SERVICE_MCP_LISTEN: env.SERVICE_MCP_LISTEN || after(MCP_PORT_OFFSET),
    SERVICE_INFERENCE_LISTEN: env.SERVICE_INFERENCE_LISTEN || after(INFERENCE_PORT_OFFSET),
  };
}
