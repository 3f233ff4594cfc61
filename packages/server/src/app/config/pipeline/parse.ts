import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { unknownField } from '@sluice/contract';
import { z } from 'zod';
import type { ClusterSettings } from '../../../http/clusters.ts';
import { ConfigError } from '../../../http/settings.ts';
import {
  formatPath,
  formatProblem,
  type Problem,
  parseYaml,
  readTextFile,
  sortProblems,
  toConfigError,
  type YamlFile,
} from '../yaml-document.ts';
import { type FilterChain, type Pipeline, type PipelineListener, resolveFilters, type TlsFiles } from './pipeline.ts';
import { type PipelineFile, pipelineFile } from './schema.ts';
import { findAddressConflicts, validateReferences } from './validate.ts';

const EMBEDDED = new URL('default.yaml', import.meta.url);

/** Name of the embedded pipeline in messages. */
export const EMBEDDED_NAME = 'the embedded pipeline';

/** Returns the text of the embedded pipeline file. */
export async function readEmbeddedPipeline(): Promise<string> {
  return await readFile(EMBEDDED, 'utf8');
}

/** Text of a pipeline file, its name in messages, and the folder that relative paths in it are resolved against. */
export interface PipelineSource {
  readonly text: string;
  readonly name: string;
  readonly folder?: string;
}

/** Reads a pipeline file, or the embedded one without a `path`. Throws {@link ConfigError}. */
export async function readPipelineSource(path?: string, name = `--pipeline-config ${path}`): Promise<PipelineSource> {
  if (path === undefined) return { text: await readEmbeddedPipeline(), name: EMBEDDED_NAME };
  const text = await readTextFile(path, name);
  if (text === undefined) throw new ConfigError(`${name}: no such file; check the path`);
  return { text, name, folder: dirname(resolve(path)) };
}

/** Parsed pipeline, or all problems of its file, in the order of the file. */
export type CheckedPipeline = { readonly pipeline: Pipeline } | { readonly problems: readonly Problem[] };

/** Parses as {@link checkPipeline} does; throws {@link ConfigError} with the first problem and the number of others. */
export function parsePipeline(text: string, name: string, folder?: string): Pipeline {
  const checked = checkPipeline(text, name, folder);
  if ('problems' in checked) throw toConfigError(checked.problems);
  return checked.pipeline;
}

/**
 * Parses a pipeline file. `name` is the name of the file in messages; relative paths in it are resolved against `folder`. Reads
 * no other file. Never throws.
 */
export function checkPipeline(text: string, name: string, folder = '.'): CheckedPipeline {
  const yaml = parseYaml(text, name);
  if ('problems' in yaml) return { problems: sortProblems(yaml.problems) };
  const { file } = yaml;
  const { problems, warnings } = validateReferences(file);
  const parsed = pipelineFile.safeParse(file.content, { error: schemaMessage });
  if (!parsed.success) return { problems: sortProblems([...schemaProblems(parsed.error, file), ...problems]) };
  const chains = parsed.data.filter_chains.map(({ name, filters }, chain) => ({
    name,
    filters: filters.map((settings, index) => ({
      settings,
      at: file.where(['filter_chains', chain, 'filters', index]),
    })),
  }));
  const listeners = toListeners(parsed.data, chains, file, folder);
  const conflicts = findAddressConflicts(listeners).map(({ listener, text }) => ({
    at: file.position(['listeners', listeners.indexOf(listener), 'address']),
    text,
  }));
  if (problems.length + conflicts.length > 0) return { problems: sortProblems([...problems, ...conflicts]) };
  return { pipeline: toPipeline(parsed.data, listeners, chains, file, warnings) };
}

function toPipeline(
  content: PipelineFile,
  listeners: readonly PipelineListener[],
  chains: readonly FilterChain[],
  file: YamlFile,
  warnings: readonly Problem[],
): Pipeline {
  const { body_limits, shutdown_timeout_secs, insecure_options } = content;
  const ignoredKeys = (['admin', 'runtime'] as const)
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
    warnings: [...file.warnings, ...sortProblems([...ignoredKeys, ...warnings]).map(formatProblem)],
  };
}

function toListeners(
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
      filters: resolveFilters(filter_chains, chains),
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

/** Returns the problems that the schema found, each with its position in the file. */
function schemaProblems({ issues }: z.ZodError, file: YamlFile): Problem[] {
  return issues.flatMap((issue) => {
    const subject = formatPath(issue.path);
    if (issue.code !== 'unrecognized_keys') {
      return [{ at: file.position(issue.path), text: `${subject} ${issueMessage(issue)}`.trim() }];
    }
    return issue.keys.map((key) => ({
      at: file.position([...issue.path, key]),
      text: `${formatPath([...issue.path, key])} ${issue.message}`,
    }));
  });
}

/** Problems of a map's key are nested below the key's own issue. */
function issueMessage(issue: z.core.$ZodIssue): string {
  return issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
}

/** Messages for issues that every schema can have; more specific messages are part of the schemas. */
const schemaMessage: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return 'is missing';
      if (issue.input === null) return `has no value; expected ${describeType(issue.expected)}`;
      return `must be ${describeType(issue.expected)}${quoteHint(issue.expected, issue.input)}`;
    case 'unrecognized_keys': {
      const known = issue.inst instanceof z.ZodObject ? Object.keys(issue.inst.shape) : [];
      return unknownField(known);
    }
    case 'invalid_value':
      return `must be ${issue.values.map(String).join(' or ')}`;
    case 'too_small':
      return `must be at least ${issue.minimum}`;
    case 'too_big':
      return `must be at most ${issue.maximum}`;
    default:
      return undefined;
  }
};

/** Returns the YAML term for a type, with its article. */
function describeType(expected: string): string {
  const known: Readonly<Record<string, string>> = {
    array: 'a list',
    object: 'a map',
    record: 'a map',
    int: 'a whole number',
    boolean: 'true or false',
  };
  return known[expected] ?? `a ${expected}`;
}

/** YAML reads a name such as 007 or true as a number or boolean, and "7" as a string. */
function quoteHint(expected: string, input: unknown): string {
  if (expected === 'string' && (typeof input === 'number' || typeof input === 'boolean')) return '; quote it';
  const unquoted = expected === 'boolean' ? /^(true|false)$/ : /^-?\d+$/;
  const scalar = expected === 'boolean' || expected === 'number' || expected === 'int';
  return scalar && typeof input === 'string' && unquoted.test(input) ? '; remove the quotes' : '';
}
