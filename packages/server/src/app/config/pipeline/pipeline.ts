import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { ConfigError, type HttpUpstream, type ListenAddress, quote } from '../../../http/address.ts';
import { type ClusterSettings, upstreamOf, withUpstream } from '../../../http/clusters.ts';
import { type Environment, parseEnvironment } from '../environment.ts';
import { formatProblem, type Position, type Problem, refusal } from '../yaml-document.ts';
import {
  checkPipeline,
  EMBEDDED_NAME,
  embeddedPipeline,
  fileForm,
  filtersOf,
  folderOf,
  parsePipeline,
  pipelineText,
} from './parse.ts';
import type { FilterSettings, SettingsOf } from './schema.ts';
import { refusedOrigins, takenAddresses } from './validate.ts';

/** One filter of a chain. */
export interface PlacedFilter {
  readonly settings: FilterSettings;
  /** `{file}:{line}:{column}`. */
  readonly at: string;
}

/** Filters in the order in which requests meet them, under a name that listeners know them by. */
export interface FilterChain {
  readonly name: string;
  readonly filters: readonly PlacedFilter[];
}

/** The files of a listener's certificate. */
export interface TlsFiles {
  /** Absolute paths of PEM files. */
  readonly certPath: string;
  readonly keyPath: string;
  /** Where the two are named. */
  readonly certAt: Position;
  readonly keyAt: Position;
}

/** A listener and the filters that its requests go through. */
export interface PipelineListener {
  readonly name: string;
  readonly address: ListenAddress;
  /** Where its address was said: `{file}:{line}:{column}`, or the variable that replaced it. */
  readonly addressAt: string;
  readonly chains: readonly string[];
  /** Those of all its chains, in their order. */
  readonly filters: readonly PlacedFilter[];
  readonly tls: TlsFiles | undefined;
  /** How long a client may take to send its request. */
  readonly readTimeoutMs: number | undefined;
  /** Connections beyond it are answered 503. */
  readonly maxConnections: number | undefined;
}

/** The pipeline: which listeners there are, and what requests go through (decisions 1.4). Nothing in it dangles. */
export interface Pipeline {
  readonly listeners: readonly PipelineListener[];
  readonly chains: readonly FilterChain[];
  /** By name, those of load balancers too. */
  readonly clusters: ReadonlyMap<string, ClusterSettings>;
  /** Of MCP, in bytes: a client's body, and an upstream's answer where it is held whole. */
  readonly bodyLimits: { readonly request: number; readonly response: number };
  readonly shutdownTimeoutMs: number;
  /** Mistakes of order are warnings. */
  readonly skipValidation: boolean;
  /** One line each, with file, line and column. */
  readonly warnings: readonly string[];
}

/** Certificate, with those that lead from it to a known authority, and private key; PEM texts. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

/** A filter's settings with nothing left to what stands elsewhere in the file. */
export type LoadedSettings =
  | Exclude<FilterSettings, { filter: 'mcp' }>
  | (SettingsOf<'mcp'> & { readonly max_body_bytes: number });

/** A filter of a {@link LoadedListener}. */
export interface LoadedFilter extends PlacedFilter {
  readonly settings: LoadedSettings;
}

/** A listener of a {@link LoadedPipeline}. */
export interface LoadedListener extends PipelineListener {
  readonly filters: readonly LoadedFilter[];
  /** What stands in the files of `tls`. */
  readonly keyPair: KeyPair | undefined;
}

/** A pipeline as it is run: the environment's say and the certificates' files are in it. */
export interface LoadedPipeline extends Pipeline {
  readonly listeners: readonly LoadedListener[];
  /**
   * Where completions are asked for at first: the upstream of the cluster `inference`. In a pipeline without that cluster
   * nobody is asked, and this is the embedded pipeline's.
   */
  readonly inferenceUpstream: HttpUpstream;
}

/** What stands in the files of a certificate, or what is wrong with them. */
export type ReadKeyPair =
  | { readonly keyPair: KeyPair; readonly warnings: readonly Problem[] }
  | { readonly problems: readonly Problem[] };

/** Reads certificate and key and sees whether they can be used together (decisions 1.4, "tls"). Never throws. */
export async function readKeyPair({ certPath, keyPath, certAt, keyAt }: TlsFiles, now: Date): Promise<ReadKeyPair> {
  const [cert, key] = await Promise.all([
    readPem(certPath, certAt, 'a PEM certificate', certificateOf),
    readPem(keyPath, keyAt, 'a PEM private key', createPrivateKey),
  ]);
  if ('problem' in cert || 'problem' in key) {
    return { problems: [cert, key].flatMap((read) => ('problem' in read ? read.problem : [])) };
  }
  if (!cert.parsed.checkPrivateKey(key.parsed)) {
    const text = `${quote(keyPath)} is not the key of ${quote(certPath)}, in which the certificate of the key stands first`;
    return { problems: [{ at: keyAt, text }] };
  }
  const pair = { cert: cert.pem, key: key.pem };
  try {
    createSecureContext(pair);
  } catch (error) {
    // A key that is too short, an algorithm that is no longer taken, a chain with something broken in it.
    return { problems: [{ at: certAt, text: `${quote(certPath)} cannot be used: ${reasonOf(error)}` }] };
  }
  return {
    keyPair: pair,
    warnings: datesOf(cert.parsed, now).map((text) => ({ at: certAt, text: `${quote(certPath)} ${text}` })),
  };
}

type Pem<T> = { readonly pem: string; readonly parsed: T } | { readonly problem: Problem };

async function readPem<T>(path: string, at: Position, what: string, parse: (pem: string) => T): Promise<Pem<T>> {
  const problem = (text: string) => ({ problem: { at, text: `${quote(path)} ${text}; ${what} is needed` } });
  let pem: string;
  try {
    pem = await readFile(path, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'for an unknown reason';
    if (code === 'ENOENT' || code === 'ENOTDIR') return problem('does not exist');
    return problem(code === 'EISDIR' ? 'is a folder' : `cannot be read (${code})`);
  }
  try {
    return { pem, parsed: parse(pem) };
  } catch {
    const locked = /^-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(pem);
    return problem(locked ? 'is locked by a passphrase' : `is not ${what}`);
  }
}

/** The library takes the binary form as well, which a listener does not. */
function certificateOf(pem: string): X509Certificate {
  if (!pem.includes('-----BEGIN CERTIFICATE-----')) throw new Error('not PEM');
  return new X509Certificate(pem);
}

function datesOf({ validFromDate, validToDate }: X509Certificate, now: Date): string[] {
  if (validToDate < now) return [`has expired on ${validToDate.toISOString()}`];
  if (validFromDate > now) return [`is not valid before ${validFromDate.toISOString()}`];
  return [];
}

function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/\s+/g, ' ');
}

/** The variables that have a say in the pipeline. */
export type PipelineEnvironment = Pick<
  Environment,
  'mcpListen' | 'inferenceListen' | 'inferenceUpstream' | 'corsOrigin'
>;

/** The cluster whose upstream the environment and the management API can replace (decisions 1.4). */
export const INFERENCE_CLUSTER = 'inference';

/**
 * The pipeline with what the environment replaces in it (decisions 1.2): addresses of the listeners `mcp` and `inference`,
 * the upstream of the cluster `inference`, the first origin of each `cors` filter. Throws {@link ConfigError} where the
 * two do not fit together.
 */
export function withEnvironment(pipeline: Pipeline, environment: PipelineEnvironment): Pipeline {
  const { mcpListen, inferenceListen, inferenceUpstream, corsOrigin } = environment;
  const chains = pipeline.chains.map(({ name, filters }) => ({
    name,
    filters: corsOrigin === undefined ? filters : filters.map((filter) => withOrigin(filter, corsOrigin)),
  }));
  const moved = [
    { variable: 'SERVICE_MCP_LISTEN', name: 'mcp', address: mcpListen },
    { variable: 'SERVICE_INFERENCE_LISTEN', name: 'inference', address: inferenceListen },
  ].filter(({ address }) => address !== undefined);
  for (const { variable, name } of moved) {
    if (pipeline.listeners.some((listener) => listener.name === name)) continue;
    const names = pipeline.listeners.map((listener) => quote(listener.name)).join(', ');
    throw new ConfigError(
      `${variable}: the pipeline has no listener ${quote(name)}; leave the variable out, or name a listener so (listeners: ${names})`,
    );
  }
  const listeners = pipeline.listeners.map((listener): PipelineListener => {
    const move = moved.find(({ name }) => name === listener.name);
    return {
      ...listener,
      ...(move?.address && { address: move.address, addressAt: move.variable }),
      filters: filtersOf(listener.chains, chains),
    };
  });
  const [taken] = takenAddresses(listeners);
  if (taken) throw new ConfigError(`${taken.listener.addressAt}: ${taken.text}`);

  const clusters = new Map<string, ClusterSettings>(pipeline.clusters);
  const warnings = [...pipeline.warnings, ...refusedOrigins(chains, corsOrigin)];
  if (inferenceUpstream) {
    const replaced = clusters.get(INFERENCE_CLUSTER);
    if (replaced) clusters.set(INFERENCE_CLUSTER, withUpstream(replaced, inferenceUpstream));
    else
      warnings.push(
        `SERVICE_INFERENCE_UPSTREAM has no effect: the pipeline has no cluster ${quote(INFERENCE_CLUSTER)}`,
      );
  }
  return { ...pipeline, listeners, chains, clusters, warnings };
}

function withOrigin(filter: PlacedFilter, origin: string): PlacedFilter {
  const { settings, at } = filter;
  if (settings.filter !== 'cors') return filter;
  if (origin === '*' && settings.allow_credentials) {
    throw new ConfigError(
      `SERVICE_CORS_ORIGIN: "*" cannot stand beside allow_credentials of ${at}; name an origin, or leave the variable out`,
    );
  }
  return { settings: { ...settings, allow_origins: [origin, ...settings.allow_origins.slice(1)] }, at };
}

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
    warnings: [...pipeline.warnings, ...warnings.map(formatProblem)],
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

/** What there is to say of a pipeline file. */
export interface Examined {
  /** None: the service starts with it. */
  readonly problems: readonly Problem[];
  /** One line each. */
  readonly warnings: readonly string[];
  /** Names of the listeners; none when there are problems. */
  readonly listeners: readonly string[];
}

/**
 * Says all that is wrong with a file, its certificates included, without the environment (`sluice pipeline check`).
 * `name` is the file as it is called in what is said. Throws `ConfigError` when it cannot be read.
 */
export async function examinePipeline(path: string, name: string): Promise<Examined> {
  const checked = checkPipeline(await pipelineText(path, name), name, folderOf(path));
  if ('problems' in checked) return { problems: checked.problems, warnings: [], listeners: [] };
  const { problems, warnings } = await readKeyPairs(checked.pipeline, new Date());
  return {
    problems,
    warnings: [...checked.pipeline.warnings, ...warnings.map(formatProblem)],
    listeners: problems.length > 0 ? [] : checked.pipeline.listeners.map((listener) => listener.name),
  };
}

/** What a service runs. */
export interface EffectivePipeline {
  /** With every default, in the form of a file. */
  readonly content: JsonObject;
  /** The text of the embedded pipeline, comments included, where it is run as it is. */
  readonly text: string | undefined;
  /** One line each; also what a file cannot say. */
  readonly warnings: readonly string[];
}

/**
 * The pipeline that a service with this file (the embedded one without) and this environment runs (`sluice pipeline
 * show`). Certificates are not read. Throws `ConfigError`.
 */
export async function effectivePipeline(
  file: { readonly path: string; readonly name: string } | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Promise<EffectivePipeline> {
  const environment = parseEnvironment(env);
  const text = file ? await pipelineText(file.path, file.name) : await embeddedPipeline();
  const parsed = file ? parsePipeline(text, file.name, folderOf(file.path)) : parsePipeline(text, EMBEDDED_NAME);
  const pipeline = withEnvironment(parsed, environment);
  const path = pipeline.clusters.get(INFERENCE_CLUSTER)?.path;
  const { mcpListen, inferenceListen, inferenceUpstream, corsOrigin } = environment;
  const asItIs = !file && [mcpListen, inferenceListen, inferenceUpstream, corsOrigin].every((each) => !each);
  return {
    content: fileForm(pipeline),
    text: asItIs ? text : undefined,
    warnings: [
      ...pipeline.warnings,
      ...(path ? [`SERVICE_INFERENCE_UPSTREAM puts ${path} in front of every path, which a file cannot say`] : []),
    ],
  };
}
