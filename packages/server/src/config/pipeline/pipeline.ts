import type { HttpUpstream, ListenAddress } from '../addresses.ts';
import type { Position } from '../problem.ts';
import type { ClusterSettings } from './cluster.ts';
import type { FilterSettings, SettingsOf } from './filter-settings.ts';

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
