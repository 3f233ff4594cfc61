import type { JsonObject } from '@sluice/protocol/json/parse';
import { bindAddress, type HttpUpstream } from '../../../http/address.ts';
import { type ClusterSettings, upstreamOf, withUpstream } from '../../../http/clusters.ts';
import { ConfigError, quote } from '../../../http/settings.ts';
import { type Environment, parseEnvironment } from '../environment.ts';
import { formatProblem, type Problem, toConfigError } from '../yaml-document.ts';
import { readKeyPairs } from './certificates.ts';
import { checkPipeline, EMBEDDED_NAME, parsePipeline, readPipelineSource } from './parse.ts';
import {
  type ConfiguredFilter,
  INFERENCE_CLUSTER,
  INFERENCE_LISTENER,
  type LoadedFilter,
  type LoadedPipeline,
  MCP_LISTENER,
  type Pipeline,
  type PipelineListener,
  resolveFilters,
} from './pipeline.ts';
import { toPipelineFile } from './serialize.ts';
import { findAddressConflicts, rejectedOriginWarnings } from './validate.ts';

/** Environment variables that override parts of the pipeline. */
export type PipelineEnvironment = Pick<
  Environment,
  'local' | 'mcpListen' | 'inferenceListen' | 'inferenceUpstream' | 'inferenceAllow' | 'corsOrigin'
>;

/**
 * Loads the pipeline file, or the embedded pipeline without a `path`, applies the environment and reads the certificates. Throws
 * {@link ConfigError}.
 */
export async function loadPipeline(
  path: string | undefined,
  environment: PipelineEnvironment,
): Promise<LoadedPipeline> {
  const pipeline = applyEnvironment(await readPipeline(path), environment);
  const { keyPairs, problems, warnings } = await readKeyPairs(pipeline, new Date());
  if (problems.length > 0) throw toConfigError(problems);
  return {
    ...pipeline,
    listeners: pipeline.listeners.map((listener) => ({
      ...listener,
      filters: listener.filters.map((filter) => resolveBodyLimit(filter, pipeline.bodyLimits.request)),
      keyPair: keyPairs.get(listener.name),
    })),
    inferenceUpstream: inferenceUpstream(pipeline) ?? (await embeddedInferenceUpstream()),
    inferenceAllow: path === undefined ? environment.inferenceAllow : undefined,
    warnings: [
      ...pipeline.warnings,
      ...warnings.map(formatProblem),
      ...(path !== undefined && environment.inferenceAllow
        ? ['SERVICE_INFERENCE_ALLOW has no effect with --pipeline-config: the routes of its file decide']
        : []),
    ],
  };
}

async function readPipeline(path?: string): Promise<Pipeline> {
  const { text, name, folder } = await readPipelineSource(path);
  return parsePipeline(text, name, folder);
}

/** Fills in the default limit; each `mcp` filter of a chain has a limit of its own. */
function resolveBodyLimit({ settings, at }: ConfiguredFilter, limit: number): LoadedFilter {
  if (settings.filter !== 'mcp') return { settings, at };
  return { settings: { ...settings, max_body_bytes: settings.max_body_bytes ?? limit }, at };
}

function inferenceUpstream({ clusters }: Pipeline): HttpUpstream | undefined {
  const cluster = clusters.get(INFERENCE_CLUSTER);
  return cluster && upstreamOf(cluster);
}

async function embeddedInferenceUpstream(): Promise<HttpUpstream> {
  const upstream = inferenceUpstream(await readPipeline());
  if (!upstream) throw new Error(`${EMBEDDED_NAME} has no cluster ${INFERENCE_CLUSTER}`);
  return upstream;
}

/**
 * Returns the pipeline with the values of the environment: addresses of the listeners `mcp` and `inference`, loopback instead of
 * wildcard addresses, upstream of the cluster `inference`, first origin of each `cors` filter. Throws {@link ConfigError} if the
 * environment contradicts the pipeline.
 */
export function applyEnvironment(pipeline: Pipeline, environment: PipelineEnvironment): Pipeline {
  const { corsOrigin } = environment;
  const chains = pipeline.chains.map(({ name, filters }) => ({
    name,
    filters: corsOrigin === undefined ? filters : filters.map((filter) => replaceFirstOrigin(filter, corsOrigin)),
  }));
  const listeners = replaceAddresses(pipeline.listeners, environment).map((listener) => ({
    ...listener,
    address: bindAddress(listener.address, environment.local),
    filters: resolveFilters(listener.chains, chains),
  }));
  const [conflict] = findAddressConflicts(listeners);
  if (conflict) throw new ConfigError(`${conflict.listener.addressAt}: ${conflict.text}`);

  const clusters = new Map<string, ClusterSettings>(pipeline.clusters);
  const warnings = [...pipeline.warnings, ...rejectedOriginWarnings(chains, corsOrigin)];
  if (environment.inferenceUpstream) {
    const replaced = clusters.get(INFERENCE_CLUSTER);
    if (replaced) clusters.set(INFERENCE_CLUSTER, withUpstream(replaced, environment.inferenceUpstream));
    else {
      warnings.push(
        `SERVICE_INFERENCE_UPSTREAM has no effect: the pipeline has no cluster ${quote(INFERENCE_CLUSTER)}`,
      );
    }
  }
  return { ...pipeline, listeners, chains, clusters, warnings };
}

function replaceAddresses(
  listeners: readonly PipelineListener[],
  { mcpListen, inferenceListen }: PipelineEnvironment,
): PipelineListener[] {
  const replacements = [
    { variable: 'SERVICE_MCP_LISTEN', name: MCP_LISTENER, address: mcpListen },
    { variable: 'SERVICE_INFERENCE_LISTEN', name: INFERENCE_LISTENER, address: inferenceListen },
  ].filter(({ address }) => address !== undefined);
  for (const { variable, name } of replacements) {
    if (listeners.some((listener) => listener.name === name)) continue;
    const names = listeners.map((listener) => quote(listener.name)).join(', ');
    throw new ConfigError(
      `${variable}: the pipeline has no listener ${quote(name)}; unset the variable or rename a listener (listeners: ${names})`,
    );
  }
  return listeners.map((listener) => {
    const replacement = replacements.find(({ name }) => name === listener.name);
    if (!replacement?.address) return listener;
    return { ...listener, address: replacement.address, addressAt: replacement.variable };
  });
}

function replaceFirstOrigin(filter: ConfiguredFilter, origin: string): ConfiguredFilter {
  const { settings, at } = filter;
  if (settings.filter !== 'cors') return filter;
  if (origin === '*' && settings.allow_credentials) {
    throw new ConfigError(
      `SERVICE_CORS_ORIGIN: "*" cannot be combined with allow_credentials (${at}); set an origin or unset the variable`,
    );
  }
  return { settings: { ...settings, allow_origins: [origin, ...settings.allow_origins.slice(1)] }, at };
}

/** Result of validating a pipeline file. */
export interface ValidationReport {
  /** Empty if the service starts with the file. */
  readonly problems: readonly Problem[];
  /** One line each. */
  readonly warnings: readonly string[];
  /** Names of the listeners; empty if there are problems. */
  readonly listeners: readonly string[];
}

/**
 * Validates a pipeline file and its certificates, without the environment (`sluice pipeline check`). `name` is the name
 * of the file in messages. Throws {@link ConfigError} if the file cannot be read.
 */
export async function validatePipelineFile(path: string, name: string): Promise<ValidationReport> {
  const { text, folder } = await readPipelineSource(path, name);
  const checked = checkPipeline(text, name, folder);
  if ('problems' in checked) return { problems: checked.problems, warnings: [], listeners: [] };
  const { problems, warnings } = await readKeyPairs(checked.pipeline, new Date());
  return {
    problems,
    warnings: [...checked.pipeline.warnings, ...warnings.map(formatProblem)],
    listeners: problems.length > 0 ? [] : checked.pipeline.listeners.map((listener) => listener.name),
  };
}

/** Pipeline that a service would run. */
export interface EffectivePipeline {
  /** Content of an equivalent pipeline file with all defaults. */
  readonly content: JsonObject;
  /** Text of the embedded pipeline, with its comments, if nothing in it is replaced. */
  readonly text: string | undefined;
  /** One line each, including what a pipeline file cannot express. */
  readonly warnings: readonly string[];
}

/**
 * Returns the pipeline that a service runs with this file (default: the embedded pipeline) and this environment (`sluice
 * pipeline show`). Does not read certificates. Throws {@link ConfigError}.
 */
export async function effectivePipeline(
  file: { readonly path: string; readonly name: string } | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Promise<EffectivePipeline> {
  const environment = parseEnvironment(env);
  const { text, name, folder } = await readPipelineSource(file?.path, file?.name);
  const pipeline = applyEnvironment(parsePipeline(text, name, folder), environment);
  const pathPrefix = pipeline.clusters.get(INFERENCE_CLUSTER)?.path;
  const { local, mcpListen, inferenceListen, inferenceUpstream, inferenceAllow, corsOrigin } = environment;
  const unchanged =
    !file && !local && [mcpListen, inferenceListen, inferenceUpstream, corsOrigin].every((each) => !each);
  return {
    content: toPipelineFile(pipeline),
    text: unchanged ? text : undefined,
    warnings: [
      ...pipeline.warnings,
      ...(!file && inferenceAllow
        ? ['SERVICE_INFERENCE_ALLOW restricts the listener inference, which a pipeline file cannot express: use routes']
        : []),
      ...(pathPrefix
        ? [`SERVICE_INFERENCE_UPSTREAM adds the path prefix ${pathPrefix}, which a pipeline file cannot express`]
        : []),
    ],
  };
}
