import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { ConfigError } from '../config-error.ts';
import { inOrder, lineOf, type Problem, refusal } from '../problem.ts';
import { readTextFile, readYaml, type YamlFile } from '../yaml-file.ts';
import type { ClusterSettings } from './cluster.ts';
import { filtersOf } from './filters-of.ts';
import { outlineOf } from './outline.ts';
import type { FilterChain, Pipeline, PipelineListener, TlsFiles } from './pipeline.ts';
import { problemsOf, wrongType } from './problems.ts';
import { checkReferences } from './references.ts';
import { takenAddresses } from './same-address.ts';
import { type PipelineFile, pipelineFile } from './schema.ts';

const EMBEDDED = new URL('default.yaml', import.meta.url);

/** The embedded pipeline as messages name it. */
export const EMBEDDED_NAME = 'the embedded pipeline';

/** The text of the embedded pipeline, which is a file like any other. */
export async function embeddedPipeline(): Promise<string> {
  return await readFile(EMBEDDED, 'utf8');
}

/** The text of a pipeline file; `name` is the file as messages name it. Throws {@link ConfigError}. */
export async function pipelineText(path: string, name: string): Promise<string> {
  const text = await readTextFile(path, name);
  if (text !== undefined) return text;
  throw new ConfigError(`${name}: no such file; name one that exists`);
}

/** What came of a file's text: a pipeline, or all that is wrong with it, in the order of the file. */
export type CheckedPipeline = { readonly pipeline: Pipeline } | { readonly problems: readonly Problem[] };

/**
 * Parses a pipeline (decisions 1.4). `name` is the file as messages name it; relative paths in it start at `folder`.
 * Reads no other file, and never throws.
 */
export function checkPipeline(text: string, name: string, folder = '.'): CheckedPipeline {
  const read = readYaml(text, name);
  if ('problems' in read) return { problems: inOrder(read.problems) };
  const { file } = read;
  const { problems, warnings } = checkReferences(outlineOf(file.content), file);
  const parsed = pipelineFile.safeParse(file.content, { error: wrongType });
  if (!parsed.success) return { problems: inOrder([...problemsOf(parsed.error, file), ...problems]) };
  const chains = chainsOf(parsed.data, file);
  const listeners = listenersOf(parsed.data, chains, file, folder);
  const taken = takenAddresses(listeners).map(({ listener, text }) => ({
    at: file.position(['listeners', listeners.indexOf(listener), 'address']),
    text,
  }));
  if (problems.length + taken.length > 0) return { problems: inOrder([...problems, ...taken]) };
  return { pipeline: pipelineOf(parsed.data, listeners, chains, file, warnings) };
}

/** Parses as {@link checkPipeline} does; throws {@link ConfigError} with the first problem and the number of the others. */
export function parsePipeline(text: string, name: string, folder?: string): Pipeline {
  const checked = checkPipeline(text, name, folder);
  if ('problems' in checked) throw refusal(checked.problems);
  return checked.pipeline;
}

function pipelineOf(
  content: PipelineFile,
  listeners: readonly PipelineListener[],
  chains: readonly FilterChain[],
  file: YamlFile,
  warnings: readonly Problem[],
): Pipeline {
  const { body_limits, shutdown_timeout_secs, insecure_options } = content;
  const withoutEffect = (['admin', 'runtime'] as const)
    .filter((key) => content[key] !== undefined)
    .map((key) => ({ at: file.position([key]), text: `${key} has no effect` }));
  const clusters: ClusterSettings[] = [
    ...content.clusters,
    ...content.filter_chains
      .flatMap(({ filters }) => filters)
      .flatMap((settings) => (settings.filter === 'load_balancer' ? settings.clusters : [])),
  ];
  return {
    listeners,
    chains,
    clusters: new Map(clusters.map((cluster) => [cluster.name, cluster])),
    bodyLimits: { request: body_limits.max_request_bytes, response: body_limits.max_response_bytes },
    shutdownTimeoutMs: shutdown_timeout_secs * 1000,
    skipValidation: insecure_options.skip_pipeline_validation,
    warnings: [...file.warnings, ...inOrder([...withoutEffect, ...warnings]).map(lineOf)],
  };
}

function chainsOf({ filter_chains }: PipelineFile, { where }: YamlFile): FilterChain[] {
  return filter_chains.map(({ name, filters }, chain) => ({
    name,
    filters: filters.map((settings, index) => ({ settings, at: where(['filter_chains', chain, 'filters', index]) })),
  }));
}

function listenersOf(
  { listeners }: PipelineFile,
  chains: readonly FilterChain[],
  { where, position }: YamlFile,
  folder: string,
): PipelineListener[] {
  return listeners.map((listener, index) => {
    const { name, address, filter_chains, tls, downstream_read_timeout_ms, max_connections } = listener;
    const certificate = ['listeners', index, 'tls', 'certificates', 0];
    return {
      name,
      address,
      addressAt: where(['listeners', index, 'address']),
      chains: filter_chains,
      filters: filtersOf(filter_chains, chains),
      tls: tls?.certificates.map(
        ({ cert_path, key_path }): TlsFiles => ({
          certPath: resolve(folder, cert_path),
          keyPath: resolve(folder, key_path),
          certAt: position([...certificate, 'cert_path']),
          keyAt: position([...certificate, 'key_path']),
        }),
      )[0],
      readTimeoutMs: downstream_read_timeout_ms,
      maxConnections: max_connections,
    };
  });
}

/** The folder that relative paths of a file start at. */
export function folderOf(path: string): string {
  return dirname(resolve(path));
}
