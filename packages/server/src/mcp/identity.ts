import { memberText } from '../json/scan.ts';
import type { Forward } from '../registry/entries.ts';
import type { NamespaceState, Snapshot } from '../registry/snapshot.ts';
import { LATEST_LEGACY, LEGACY_VERSIONS, META_SERVER_INFO, MODERN_VERSIONS } from './protocol.ts';

/** Who we are, towards clients and upstreams: JSON text of an Implementation. */
export interface Implementation {
  readonly name: string;
  readonly title: string;
  readonly version: string;
}

/**
 * Advertised always: an upstream that offers them may come up at any time (mcp 6). Capabilities beyond these are
 * advertised by whoever relays them.
 */
const CAPABILITIES = { tools: {}, resources: {}, prompts: {} };

/** The version to speak with a client that asks for this one: its own when we know it, else our latest. */
export function negotiate(requested: unknown): string {
  return typeof requested === 'string' && LEGACY_VERSIONS.includes(requested) ? requested : LATEST_LEGACY;
}

/** InitializeResult of a namespace, as JSON text. */
export function initializeResult(
  snapshot: Snapshot,
  namespace: NamespaceState,
  protocolVersion: string,
  serverInfo: Implementation,
): string {
  const instructions = joinedInstructions(snapshot, namespace);
  return JSON.stringify({ protocolVersion, capabilities: CAPABILITIES, serverInfo, ...instructions });
}

/** DiscoverResult of a namespace, as JSON text. Not to be cached: what a namespace offers can change at any time. */
export function discoverResult(snapshot: Snapshot, namespace: NamespaceState, serverInfo: Implementation): string {
  return JSON.stringify({
    resultType: 'complete',
    supportedVersions: MODERN_VERSIONS,
    capabilities: CAPABILITIES,
    ...joinedInstructions(snapshot, namespace),
    ttlMs: 0,
    cacheScope: 'public',
    _meta: { [META_SERVER_INFO]: serverInfo },
  });
}

/** What the upstreams of a namespace tell models about their use, one after the other. */
function joinedInstructions(snapshot: Snapshot, namespace: NamespaceState): { instructions?: string } {
  const texts = [...snapshot.forwards.values()]
    .filter((forward) => forward.namespace === namespace.name)
    .map(instructionsOf)
    .filter((text) => text !== '');
  return texts.length === 0 ? {} : { instructions: texts.join('\n\n') };
}

function instructionsOf(forward: Forward): string {
  for (const { identity } of forward.catalogues) {
    const text: unknown = JSON.parse(memberText(identity, 'instructions') ?? 'null');
    if (typeof text === 'string' && text !== '') return text;
  }
  return '';
}
