import type { HttpUpstream } from '../addresses.ts';
import { lineOf, type Problem, refusal } from '../problem.ts';
import { upstreamOf } from './cluster.ts';
import { readKeyPair } from './key-pair.ts';
import type { KeyPair, LoadedFilter, LoadedPipeline, Pipeline, PlacedFilter } from './pipeline.ts';
import { EMBEDDED_NAME, embeddedPipeline, folderOf, parsePipeline, pipelineText } from './pipeline-file.ts';
import { INFERENCE_CLUSTER, type PipelineEnvironment, withEnvironment } from './with-environment.ts';

/**
 * Reads the file that `--pipeline-config` names, or the embedded one, puts the environment's say into it (decisions 1.2,
 * 1.4) and reads its certificates. Throws `ConfigError`.
 */
export async function loadPipeline(
  path: string | undefined,
  environment: PipelineEnvironment,
): Promise<LoadedPipeline> {
  const pipeline = withEnvironment(await readPipeline(path), environment);
  const { keyPairs, problems, warnings } = await readKeyPairs(pipeline, new Date());
  if (problems.length > 0) throw refusal(problems);
  return {
    ...pipeline,
    listeners: pipeline.listeners.map((listener) => ({
      ...listener,
      filters: listener.filters.map((filter) => withBodyLimit(filter, pipeline.bodyLimits.request)),
      keyPair: keyPairs.get(listener.name),
    })),
    inferenceUpstream: inferenceUpstream(pipeline) ?? (await embeddedInferenceUpstream()),
    warnings: [...pipeline.warnings, ...warnings.map(lineOf)],
  };
}

/** Of several filters `mcp` in a chain, each keeps to its own limit. */
function withBodyLimit({ settings, at }: PlacedFilter, limit: number): LoadedFilter {
  if (settings.filter !== 'mcp') return { settings, at };
  return { settings: { ...settings, max_body_bytes: settings.max_body_bytes ?? limit }, at };
}

function inferenceUpstream({ clusters }: Pipeline): HttpUpstream | undefined {
  const cluster = clusters.get(INFERENCE_CLUSTER);
  return cluster && upstreamOf(cluster);
}

async function embeddedInferenceUpstream(): Promise<HttpUpstream> {
  const upstream = inferenceUpstream(await readPipeline(undefined));
  if (!upstream) throw new Error(`${EMBEDDED_NAME} has no cluster ${INFERENCE_CLUSTER}`);
  return upstream;
}

async function readPipeline(path: string | undefined): Promise<Pipeline> {
  if (path === undefined) return parsePipeline(await embeddedPipeline(), EMBEDDED_NAME);
  const name = `--pipeline-config ${path}`;
  return parsePipeline(await pipelineText(path, name), name, folderOf(path));
}

/** The certificates of a pipeline's listeners, by their names, or what is wrong with them. */
export async function readKeyPairs({ listeners }: Pipeline, now: Date) {
  const keyPairs = new Map<string, KeyPair>();
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  for (const { name, tls } of listeners) {
    if (!tls) continue;
    const read = await readKeyPair(tls, now);
    if ('problems' in read) problems.push(...read.problems);
    else {
      keyPairs.set(name, read.keyPair);
      warnings.push(...read.warnings);
    }
  }
  return { keyPairs, problems, warnings };
}
