import type { ListenAddress } from '../addresses.ts';
import type { Cluster } from './cluster.ts';
import type { FilterSettings } from './filter-settings.ts';

/** One filter of a listener's chain. */
export interface PlacedFilter {
  readonly settings: FilterSettings;
  /** `{file}:{line}:{column}`. */
  readonly at: string;
}

/** A listener and the filters that its requests go through: those of all chains that it names, in their order. */
export interface PipelineListener {
  readonly name: string;
  readonly address: ListenAddress;
  readonly filters: readonly PlacedFilter[];
  /** Absolute paths of PEM files. */
  readonly tls: { readonly certPath: string; readonly keyPath: string } | undefined;
  /** How long a client may take to send its request. */
  readonly readTimeoutMs: number | undefined;
  /** Connections beyond it are answered 503. */
  readonly maxConnections: number | undefined;
}

/** The pipeline: which listeners there are, and what requests go through (decisions 1.4). Nothing in it dangles. */
export interface Pipeline {
  readonly listeners: readonly PipelineListener[];
  /** By name, those of load balancers too. */
  readonly clusters: ReadonlyMap<string, Cluster>;
  /** Of MCP, in bytes: a client's body, and an upstream's answer where it is held whole. */
  readonly bodyLimits: { readonly request: number; readonly response: number };
  readonly shutdownTimeoutMs: number;
  /** One line each, with file, line and column. */
  readonly warnings: readonly string[];
}
