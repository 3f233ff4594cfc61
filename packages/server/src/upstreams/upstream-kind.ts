import type { ForwardTest } from '@sluice/contract';
import type { Secrets } from '../http/secrets/secrets.ts';
import type { Forward } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { ForwardConnection } from './forward-connection.ts';
import type { CatalogLimits } from './mcp/catalog/catalog-size.ts';
import type { SharedUpstreamSessions } from './mcp/sessions/shared-sessions.ts';
import type { UpstreamHttp } from './mcp/upstream.ts';
import type { RunningOperations } from './operation.ts';

/** What requests to a forward depend on, which may be no registered one, and what is known of it for a test. */
export type ForwardTarget = Pick<Forward, 'address' | 'headers' | 'proxy' | 'compression'> &
  Partial<Pick<Forward, 'catalogs' | 'modernProbeAfter'>>;

/** Parts of the service that connections to upstreams use. */
export interface UpstreamDeps {
  readonly registry: Registry;
  readonly log: TargetLogger;
  readonly secrets: Secrets;
  /** Identity of the gateway towards upstreams. */
  readonly clientInfo: Readonly<Record<string, unknown>>;
  /** Default: `CATALOG_LIMITS`. */
  readonly catalogLimits?: CatalogLimits | undefined;
  /** Sessions at upstreams that replicas share; undefined for a single one. */
  readonly sharedSessions?: SharedUpstreamSessions | undefined;
  /** Transport of requests to upstreams. */
  readonly http?: UpstreamHttp | undefined;
  /** Executes requests to upstreams that are no MCP servers. */
  readonly operations: RunningOperations;
  /** Whether there are legacy clients: without them, an upstream need not be discovered for them. Read at each discovery. */
  readonly hasLegacyClients: () => boolean;
}

/** A kind of upstreams: how forwards with certain addresses are reached. */
export interface UpstreamKind {
  readonly name: string;
  /** Schemes of the addresses, with a colon. No other kind has one of them. */
  readonly schemes: readonly string[];
  /** Returns what is wrong with an address that has one of the schemes, as a predicate; undefined for a valid one. */
  validate(address: string): string | undefined;
  /** Text of what requests to the forward depend on: when it changes, so does everything that was sent there. */
  connectionKey(forward: ForwardTarget): string;
  /** The origins that get the headers of the forward, first that of its address. */
  origins(forward: ForwardTarget): readonly string[];
  /** Sends nothing. */
  open(forward: Forward, deps: UpstreamDeps): ForwardConnection;
  /** Tests a forward step by step, without executing anything. Undefined if there is nothing to test. */
  test?(target: ForwardTarget, deps: UpstreamDeps): Promise<ForwardTest>;
}
