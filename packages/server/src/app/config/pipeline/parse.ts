import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import { z } from 'zod';
import { addressText, ConfigError, quote } from '../../../http/address.ts';
import type { ClusterSettings } from '../../../http/clusters.ts';
import {
  formatProblem,
  type KeyPath,
  type Problem,
  readTextFile,
  readYaml,
  refusal,
  sortProblems,
  type YamlFile,
} from '../yaml-document.ts';
import type { FilterChain, Pipeline, PipelineListener, PlacedFilter, TlsFiles } from './pipeline.ts';
import { type PipelineFile, pipelineFile } from './schema.ts';
import { checkReferences, outlineOf, takenAddresses } from './validate.ts';

/** The filters of the chains of these names, in their order: what a listener's requests go through (decisions 1.4). */
export function filtersOf(names: readonly string[], chains: readonly FilterChain[]): PlacedFilter[] {
  return names.flatMap((name) => chains.find((chain) => chain.name === name)?.filters ?? []);
}

/** What a schema found wrong with a file, each with its place. */
export function problemsOf({ issues }: z.ZodError, file: YamlFile): Problem[] {
  return issues.flatMap((issue) => {
    if (issue.code !== 'unrecognized_keys') {
      return [{ at: file.position(issue.path), text: said(issue.path, wordsOf(issue)) }];
    }
    return issue.keys.map((key) => ({
      at: file.position([...issue.path, key]),
      text: said(issue.path, `has the unknown key ${quote(key)}; ${issue.message}`, 'the top level'),
    }));
  });
}

/** A key's own rules are beneath what is said of the key. */
function wordsOf(issue: z.core.$ZodIssue): string {
  return issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
}

/** For what is missing, unknown or has the wrong type; other rules have their words where they stand. */
export const wrongType: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return 'is missing';
      if (issue.input === null) return `has no value; ${article(issue.expected)} is needed`;
      return `is not ${article(issue.expected)}${hint(issue.expected, issue.input)}`;
    case 'unrecognized_keys': {
      const known = issue.inst instanceof z.ZodObject ? Object.keys(issue.inst.shape) : [];
      return known.length > 0 ? `known keys: ${known.join(', ')}` : 'it has none';
    }
    case 'invalid_value':
      return `is not ${issue.values.map(String).join(' or ')}`;
    case 'too_small':
      return `is below ${issue.minimum}`;
    case 'too_big':
      return `is above ${issue.maximum}`;
    default:
      return undefined;
  }
};

/** A type as someone who writes YAML knows it. */
function article(expected: string): string {
  const known: Readonly<Record<string, string>> = {
    array: 'a list',
    object: 'a map',
    record: 'a map',
    int: 'a whole number',
    boolean: 'true or false',
  };
  return known[expected] ?? `a ${expected}`;
}

/** A name such as 007 or true is a number or a truth value to YAML, and "7" is none. */
function hint(expected: string, input: unknown): string {
  if (expected === 'string' && (typeof input === 'number' || typeof input === 'boolean')) return '; quote it';
  const unquoted = expected === 'boolean' ? /^(true|false)$/ : /^-?\d+$/;
  const scalar = expected === 'boolean' || expected === 'number' || expected === 'int';
  return scalar && typeof input === 'string' && unquoted.test(input) ? '; leave the quotes out' : '';
}

function said(path: KeyPath, what: string, top = ''): string {
  const subject = path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`;
    const name = String(step);
    return /^[\w-]+$/.test(name) ? `${text}${text && '.'}${name}` : `${text}[${quote(name)}]`;
  }, '');
  return `${subject || top} ${what}`.trim();
}

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
  if ('problems' in read) return { problems: sortProblems(read.problems) };
  const { file } = read;
  const { problems, warnings } = checkReferences(outlineOf(file.content), file);
  const parsed = pipelineFile.safeParse(file.content, { error: wrongType });
  if (!parsed.success) return { problems: sortProblems([...problemsOf(parsed.error, file), ...problems]) };
  const chains = chainsOf(parsed.data, file);
  const listeners = listenersOf(parsed.data, chains, file, folder);
  const taken = takenAddresses(listeners).map(({ listener, text }) => ({
    at: file.position(['listeners', listeners.indexOf(listener), 'address']),
    text,
  }));
  if (problems.length + taken.length > 0) return { problems: sortProblems([...problems, ...taken]) };
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
    warnings: [...file.warnings, ...sortProblems([...withoutEffect, ...warnings]).map(formatProblem)],
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

/**
 * A pipeline as a file that means the same, with every default filled in: for people to read, and to go on from. Clusters
 * of load balancers are at the top level, paths are absolute.
 */
export function fileForm(pipeline: Pipeline): JsonObject {
  const { listeners, chains, clusters, bodyLimits, shutdownTimeoutMs, skipValidation } = pipeline;
  return {
    listeners: listeners.map(listenerForm),
    filter_chains: chains.map(({ name, filters }) => ({
      name,
      filters: filters.map(({ settings }) =>
        filled(settings.filter === 'load_balancer' ? { ...settings, clusters: [] } : settings),
      ),
    })),
    clusters: [...clusters.values()].map(clusterForm),
    body_limits: { max_request_bytes: bodyLimits.request, max_response_bytes: bodyLimits.response },
    shutdown_timeout_secs: shutdownTimeoutMs / 1000,
    insecure_options: { skip_pipeline_validation: skipValidation },
  };
}

function listenerForm({ name, address, chains, tls, readTimeoutMs, maxConnections }: PipelineListener): JsonObject {
  return filled({
    name,
    address: addressText(address),
    filter_chains: chains,
    tls: tls && { certificates: [{ cert_path: tls.certPath, key_path: tls.keyPath }] },
    downstream_read_timeout_ms: readTimeoutMs,
    max_connections: maxConnections,
  });
}

function clusterForm({ name, endpoints, tls, connection_timeout_ms }: ClusterSettings): JsonObject {
  return filled({
    name,
    endpoints: endpoints.map(({ address, weight }) => ({ address: addressText(address), weight })),
    tls,
    connection_timeout_ms,
  });
}

/** Without what is undefined. */
function filled(members: object): JsonObject {
  const defined: [string, JsonValue][] = Object.entries(members).flatMap(([key, value]) => {
    const json = jsonOf(value);
    return json === undefined ? [] : [[key, json]];
  });
  return Object.fromEntries(defined);
}

function jsonOf(value: unknown): JsonValue | undefined {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value;
  if (Array.isArray(value)) return value.flatMap((item: unknown) => jsonOf(item) ?? []);
  return typeof value === 'object' && value !== null ? filled(value) : undefined;
}
