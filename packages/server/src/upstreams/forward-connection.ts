import type { Emitter } from '@sluice/protocol/emitter';
import type { ClientCapabilities } from '@sluice/protocol/mcp/capabilities';
import type { Era } from '@sluice/protocol/mcp/constants';
import type { DiscoveredCatalog } from '../registry/catalogs.ts';
import type { KnownCatalog } from '../registry/entries.ts';
import type { UpstreamConnection } from './connection.ts';
import type { Upstream } from './mcp/upstream.ts';

/** Lists of an upstream; changes of resources and templates are announced together. */
export const ANNOUNCED_LISTS = ['tools', 'prompts', 'resources'] as const;
/** One of {@link ANNOUNCED_LISTS}. */
export type AnnouncedList = (typeof ANNOUNCED_LISTS)[number];

/** Result of a discovery. */
export interface Discovery {
  /** One for each era and set of client capabilities; equal lists are one array. */
  readonly catalogs: readonly DiscoveredCatalog[];
  /** Whether nothing differs from the discovery that was accepted last. */
  readonly isUnchanged: boolean;
  /** Skipped entries and incomplete lists, for the status. */
  readonly notes: readonly string[];
  /** Eras that it could not decide about: their known catalogs remain, and the status has the note. */
  readonly undecided: readonly { readonly era: Era; readonly note: string }[];
  /** False if the legacy era was left out, since no client has needed it so far. */
  readonly coversLegacy: boolean;
  /** Milliseconds after which everything is to be discovered again, however healthy the upstream is. */
  readonly validMs: number;
  /** Called when the registry has the catalogs: the next discovery is compared with this one. */
  accept(): void;
}

/**
 * A change of an upstream, for the controller of its forward:
 *
 * - `lists`: its lists have changed, or may have. `isEcho`: they have perhaps only been read: some upstreams announce a change
 *   whenever they are
 * - `session-lost`: it has lost a session, as after a restart: its lists may be others
 * - `unreachable`: a call did not reach it
 * - `reachable`: a call succeeded although the forward is not available
 */
export type UpstreamChange =
  | { readonly kind: 'lists'; readonly isEcho: boolean }
  | { readonly kind: 'session-lost' }
  | { readonly kind: 'unreachable'; readonly error: Error }
  | { readonly kind: 'reachable' };

/**
 * The upstream of one forward, for its controller. It discovers and reports, and decides nothing: the controller has the registry,
 * the schedule and the status.
 */
export interface ForwardConnection {
  /** The address without what may be secret, for messages. */
  readonly address: string;
  readonly changed: Emitter<UpstreamChange>;
  /** Whether the forward is available. Set by the controller; while it is false, calls that succeed are reported. */
  isAvailable: boolean;
  /** The upstream, if it is an MCP server: requests need its sessions. */
  readonly mcpUpstream?: Upstream;
  /** Executes the requests of clients, if the upstream is no MCP server. */
  readonly calls?: UpstreamConnection;
  /**
   * Reads the catalogs for these sets of client capabilities, and watches for changes from before it reads the lists until `pause`.
   * Reads at once what is known to exist, or first determines which eras the upstream supports (`probes`). Called again only
   * after it has ended. Rejects with an `UpstreamError` if any catalog cannot be read.
   */
  discover(profiles: Iterable<ClientCapabilities>, probes: boolean): Promise<Discovery>;
  /**
   * Reads only the catalogs that the accepted discovery lacks; undefined if there are none. Without it, all are read. Rejects with
   * an `UpstreamError`.
   */
  discoverMissing?(profiles: Iterable<ClientCapabilities>): Promise<Discovery | undefined>;
  /** Called when the registry has other catalogs of the forward, from whichever replica. */
  onCatalogs(catalogs: readonly KnownCatalog[]): void;
  /** Whether the upstream has this list, or any, and does not announce changes of it. */
  changesSilently(list?: AnnouncedList): boolean;
  /** Resolves if the upstream responds; rejects with an `UpstreamError`. */
  checkHealth(): Promise<void>;
  /** Ends what watches and checks it until the next discovery: it is down, or another replica discovers it. */
  pause(): void;
  /** Closes all sessions. Calls in flight may finish, with `graceMs` only for that long. */
  close(graceMs?: number): Promise<void>;
}

/** Availability of a forward: unknown since the start, available or not. `message`: notes on its lists, or why it is down. */
export type ForwardHealth =
  | { readonly kind: 'pending' }
  | { readonly kind: 'up'; readonly message: string | undefined }
  | { readonly kind: 'down'; readonly message: string };
