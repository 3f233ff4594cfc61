import type { HttpUpstream, ListenAddress } from '../../../http/address.ts';
import type { ClusterSettings } from '../../../http/clusters.ts';
import type { InferenceAllow } from '../../../inference/allow.ts';
import type { Position } from '../yaml-document.ts';
import type { FilterSettings, SettingsOf } from './schema.ts';

/** Pipeline of a file: its listeners, filter chains and clusters. All references are resolved. */
export interface Pipeline {
  readonly listeners: readonly PipelineListener[];
  readonly chains: readonly FilterChain[];
  /** By name, including the clusters of load balancers. */
  readonly clusters: ReadonlyMap<string, ClusterSettings>;
  /** Limits of MCP messages in bytes: request bodies of clients, buffered responses of upstreams. */
  readonly bodyLimits: { readonly request: number; readonly response: number };
  readonly shutdownTimeoutMs: number;
  /** Whether ordering mistakes are warnings instead of errors. */
  readonly skipValidation: boolean;
  /** One line each, with file, line and column. */
  readonly warnings: readonly string[];
}

/** Listener and the filters that its requests pass through. */
export interface PipelineListener {
  readonly name: string;
  readonly address: ListenAddress;
  /** Source of the address: `{file}:{line}:{column}`, or the environment variable that replaced it. */
  readonly addressAt: string;
  readonly chains: readonly string[];
  /** Filters of all its chains in order. */
  readonly filters: readonly ConfiguredFilter[];
  readonly tls: TlsFiles | undefined;
  /** Time limit in milliseconds for receiving a request. */
  readonly readTimeoutMs: number | undefined;
  /** Further connections are answered 503. */
  readonly maxConnections: number | undefined;
}

/** Named list of filters in execution order. */
export interface FilterChain {
  readonly name: string;
  readonly filters: readonly ConfiguredFilter[];
}

/** Filter of a chain. */
export interface ConfiguredFilter {
  readonly settings: FilterSettings;
  /** `{file}:{line}:{column}`. */
  readonly at: string;
}

/** Certificate files of a listener. */
export interface TlsFiles {
  /** Absolute paths of PEM files. */
  readonly certPath: string;
  readonly keyPath: string;
  /** Positions of the two paths in the pipeline file. */
  readonly certAt: Position;
  readonly keyAt: Position;
}

/** Pipeline as it runs: environment variables are applied and certificates are loaded. */
export interface LoadedPipeline extends Pipeline {
  readonly listeners: readonly LoadedListener[];
  /**
   * Initial upstream for completions: the first endpoint of the cluster `inference`. Without that cluster it is the one
   * of the embedded pipeline, and unused.
   */
  readonly inferenceUpstream: HttpUpstream;
  /** Requests that the listener `inference` of the embedded pipeline passes on; undefined: all. */
  readonly inferenceAllow: InferenceAllow;
}

/** Listener of a {@link LoadedPipeline}. */
export interface LoadedListener extends PipelineListener {
  readonly filters: readonly LoadedFilter[];
  readonly keyPair: KeyPair | undefined;
}

/** Filter of a {@link LoadedListener}. */
export interface LoadedFilter extends ConfiguredFilter {
  readonly settings: LoadedSettings;
}

/** Settings of a filter with the defaults that come from other parts of the file. */
export type LoadedSettings =
  | Exclude<FilterSettings, { filter: 'mcp' }>
  | (SettingsOf<'mcp'> & { readonly max_body_bytes: number });

/** PEM texts: the certificate, optionally followed by its intermediate certificates, and the private key. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

/** Cluster whose upstream the environment and the management API can replace. */
export const INFERENCE_CLUSTER = 'inference';

/** Listener whose address SERVICE_MCP_LISTEN replaces. */
export const MCP_LISTENER = 'mcp';

/** Listener whose address SERVICE_INFERENCE_LISTEN replaces. */
export const INFERENCE_LISTENER = 'inference';

/** Returns the filters of the named chains in order: those that the requests of a listener pass. */
export function resolveFilters(names: readonly string[], chains: readonly FilterChain[]): ConfiguredFilter[] {
  return names.flatMap((name) => chains.find((chain) => chain.name === name)?.filters ?? []);
}
