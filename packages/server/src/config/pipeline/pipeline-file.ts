import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { ConfigError } from '../config-error.ts';
import { quote } from '../setting.ts';
import { type KeyPath, parseYamlFile, readTextFile, type YamlFile } from '../yaml-file.ts';
import type { Cluster } from './cluster.ts';
import { orderMistakes } from './order.ts';
import type { Pipeline, PipelineListener, PlacedFilter } from './pipeline.ts';
import { lineOf, type Problem, problemsOf, refusal, wrongType } from './problems.ts';
import { type PipelineFile, pipelineFile } from './schema.ts';

const EMBEDDED = new URL('default.yaml', import.meta.url);
const MAX_REQUEST_BYTES = 4 * 1024 * 1024;
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

/** The text of the embedded pipeline, which is a file like any other. */
export async function embeddedPipeline(): Promise<string> {
  return await readFile(EMBEDDED, 'utf8');
}

/** Reads the file that `--pipeline-config` names, or the embedded one. Throws {@link ConfigError}. */
export async function loadPipeline(path: string | undefined): Promise<Pipeline> {
  if (path === undefined) return parsePipeline(await embeddedPipeline(), 'the embedded pipeline');
  const name = `--pipeline-config ${path}`;
  const text = await readTextFile(path, name);
  if (text === undefined) throw new ConfigError(`${name}: no such file; name one that exists or leave the flag out`);
  return parsePipeline(text, name, dirname(path));
}

/**
 * Parses a pipeline (decisions 1.4). `name` is the file as messages name it; paths in it start at `folder`. Throws
 * {@link ConfigError} with file, line and column of the first problem and the number of the others.
 */
export function parsePipeline(text: string, name: string, folder = '.'): Pipeline {
  const yaml = parseYamlFile(text, name);
  const parsed = pipelineFile.safeParse(yaml.content, { error: wrongType });
  if (!parsed.success) throw refusal(problemsOf(parsed.error, yaml));
  return new References(parsed.data, yaml, folder).resolve();
}

/** Puts together what a file has in pieces that name each other, and notes what does not fit. */
class References {
  readonly #file: PipelineFile;
  readonly #yaml: YamlFile;
  readonly #folder: string;
  readonly #clusters = new Map<string, Cluster>();
  readonly #problems: Problem[] = [];

  constructor(file: PipelineFile, yaml: YamlFile, folder: string) {
    this.#file = file;
    this.#yaml = yaml;
    this.#folder = folder;
  }

  resolve(): Pipeline {
    const { filter_chains, body_limits, insecure_options, shutdown_timeout_secs } = this.#file;
    const chains = this.#chains();
    this.#addClusters(this.#file.clusters, ['clusters']);
    filter_chains.forEach(({ filters }, chain) => {
      filters.forEach((settings, index) => {
        const at = ['filter_chains', chain, 'filters', index, 'clusters'];
        if (settings.filter === 'load_balancer') this.#addClusters(settings.clusters, at);
      });
    });
    this.#checkRoutes();
    const resolved = this.#listeners(chains);
    const mistakes = unique(resolved.flatMap(({ filters }) => orderMistakes(filters)));
    const lenient = insecure_options.skip_pipeline_validation;
    if (!lenient) this.#problems.push(...mistakes);
    if (this.#problems.length > 0) throw refusal(this.#problems);
    return {
      listeners: resolved,
      clusters: this.#clusters,
      bodyLimits: {
        request: body_limits.max_request_bytes ?? MAX_REQUEST_BYTES,
        response: body_limits.max_response_bytes ?? MAX_RESPONSE_BYTES,
      },
      shutdownTimeoutMs: shutdown_timeout_secs * 1000,
      warnings: [...this.#yaml.warnings, ...this.#withoutEffect(), ...mistakes.map(lineOf)],
    };
  }

  /** The filters of each chain, by its name. */
  #chains(): ReadonlyMap<string, readonly PlacedFilter[]> {
    const chains = new Map<string, readonly PlacedFilter[]>();
    this.#file.filter_chains.forEach(({ name, filters }, chain) => {
      const at: KeyPath = ['filter_chains', chain];
      if (chains.has(name)) this.#problem(at, `a chain of the name ${quote(name)} stands before it`);
      const placed = filters.map((settings, index) => ({ settings, at: this.#yaml.where([...at, 'filters', index]) }));
      chains.set(name, placed);
    });
    return chains;
  }

  #addClusters(clusters: readonly Cluster[], at: KeyPath): void {
    clusters.forEach((cluster, index) => {
      const { name } = cluster;
      if (!this.#clusters.has(name)) this.#clusters.set(name, cluster);
      else this.#problem([...at, index], `a cluster of the name ${quote(name)} stands before it`);
    });
  }

  #checkRoutes(): void {
    this.#file.filter_chains.forEach(({ filters }, chain) => {
      filters.forEach((settings, index) => {
        if (settings.filter !== 'router') return;
        settings.routes.forEach(({ cluster }, route) => {
          if (this.#clusters.has(cluster)) return;
          const at = ['filter_chains', chain, 'filters', index, 'routes', route, 'cluster'];
          this.#problem(at, `there is no cluster ${quote(cluster)}; ${known('clusters', this.#clusters.keys())}`);
        });
      });
    });
  }

  #listeners(chains: ReadonlyMap<string, readonly PlacedFilter[]>): PipelineListener[] {
    const names = new Set<string>();
    return this.#file.listeners.map((listener, index) => {
      const { name, address, filter_chains, tls, downstream_read_timeout_ms, max_connections } = listener;
      const at: KeyPath = ['listeners', index];
      if (names.has(name)) this.#problem(at, `a listener of the name ${quote(name)} stands before it`);
      names.add(name);
      const filters = filter_chains.flatMap((chain, position) => {
        const found = chains.get(chain);
        if (found) return found;
        const problem = `there is no chain ${quote(chain)}; ${known('chains', chains.keys())}`;
        this.#problem([...at, 'filter_chains', position], problem);
        return [];
      });
      const [certificate] = tls?.certificates ?? [];
      return {
        name,
        address,
        filters,
        tls: certificate && {
          certPath: resolve(this.#folder, certificate.cert_path),
          keyPath: resolve(this.#folder, certificate.key_path),
        },
        readTimeoutMs: downstream_read_timeout_ms,
        maxConnections: max_connections,
      };
    });
  }

  #withoutEffect(): string[] {
    const keys = (['admin', 'runtime'] as const).filter((key) => this.#file[key] !== undefined);
    return keys.map((key) => `${this.#yaml.where([key])}: ${key} has no effect`);
  }

  #problem(at: KeyPath, text: string): void {
    this.#problems.push({ at: this.#yaml.where(at), text });
  }
}

/** A chain that several listeners share has its mistakes once. */
function unique(problems: readonly Problem[]): Problem[] {
  return [...new Map(problems.map((problem) => [lineOf(problem), problem])).values()];
}

function known(what: string, names: Iterable<string>): string {
  return `${what}: ${[...names].map(quote).join(', ') || 'none'}`;
}
