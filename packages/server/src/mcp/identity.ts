import { memberText } from '@sluice/protocol/json/scan';
import { LATEST_LEGACY, LEGACY_VERSIONS, META_SERVER_INFO, MODERN_VERSIONS } from '@sluice/protocol/mcp/constants';
import type { Forward } from '../registry/entries.ts';
import type { NamespaceState, Snapshot } from '../registry/snapshot.ts';
import { advertisedCapabilities } from './advertised-capabilities.ts';
import type { ClientProfile } from './client-profile.ts';
import { declarationsTo } from './upstream-capabilities.ts';

/** Who we are, towards clients and upstreams: JSON text of an Implementation. */
export interface Implementation {
  readonly name: string;
  readonly title: string;
  readonly version: string;
}

/** The version to speak with a client that asks for this one: its own when we know it, else our latest. */
export function negotiate(requested: unknown): string {
  return typeof requested === 'string' && LEGACY_VERSIONS.includes(requested) ? requested : LATEST_LEGACY;
}

/** InitializeResult of a namespace for this client, as JSON text. */
export function initializeResult(
  snapshot: Snapshot,
  namespace: NamespaceState,
  protocolVersion: string,
  serverInfo: Implementation,
  client: Pick<ClientProfile, 'view'>,
): string {
  const capabilities = advertisedCapabilities(declarationsTo(client, snapshot, namespace), 'legacy');
  const rest = { serverInfo, ...joinedInstructions(snapshot, namespace) };
  return withCapabilities({ protocolVersion }, capabilities, rest);
}

/** DiscoverResult of a namespace for this client, as JSON text. Not to be cached: what a namespace offers can change. */
export function discoverResult(
  snapshot: Snapshot,
  namespace: NamespaceState,
  serverInfo: Implementation,
  client: Pick<ClientProfile, 'view'>,
): string {
  const capabilities = advertisedCapabilities(declarationsTo(client, snapshot, namespace), 'modern');
  return withCapabilities({ resultType: 'complete', supportedVersions: MODERN_VERSIONS }, capabilities, {
    ...joinedInstructions(snapshot, namespace),
    ttlMs: 0,
    cacheScope: 'public',
    _meta: { [META_SERVER_INFO]: serverInfo },
  });
}

/** Joins texts, so that what upstreams declare stays as they spelled it. */
function withCapabilities(before: object, capabilities: string, after: object): string {
  return `${JSON.stringify(before).slice(0, -1)},"capabilities":${capabilities},${JSON.stringify(after).slice(1)}`;
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
