import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { CallSettings } from '../bridge/grpc-call.ts';
import { settledBridgeGrpc } from './bridge-grpc.ts';
import { ConfigError } from './config-error.ts';
import { type Environment, parseEnvironment } from './environment.ts';
import { parseFlags, USAGE } from './flags.ts';
import { type OpenTelemetrySettings, openTelemetrySettings } from './open-telemetry.ts';
import { loadPipeline } from './pipeline/load-pipeline.ts';
import type { LoadedPipeline } from './pipeline/pipeline.ts';
import { loadServiceFile, type ServiceFile } from './service-file.ts';
import { quote } from './setting.ts';
import { VERSION } from './version.ts';
import { warnOfNoEffect } from './without-effect.ts';

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
        ...warnOfNoEffect(set),
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
