import type { ServerInfo } from '@sluice/contract';
import { isJsonObject, type JsonObject, parseLossless } from '../json/lossless.ts';
import { META_SERVER_INFO } from '../mcp/protocol.ts';
import type { KnownCatalogue } from '../registry/entries.ts';

/**
 * What an upstream says of itself, as forwards show it (decisions 2.4): of several eras the first; undefined before the
 * first discovery.
 */
export function serverInfoOf(catalogues: readonly KnownCatalogue[]): ServerInfo | undefined {
  const [first] = catalogues;
  if (!first) return undefined;
  const identity = parseLossless(first.identity);
  if (!isJsonObject(identity)) return undefined;
  const meta = isJsonObject(identity._meta) ? identity._meta[META_SERVER_INFO] : undefined;
  const server: JsonObject = [identity.serverInfo, meta].find(isJsonObject) ?? {};
  const capabilities: JsonObject = isJsonObject(identity.capabilities) ? identity.capabilities : {};
  const { extensions } = capabilities;
  return {
    serverName: text(server.name) ?? '',
    version: text(server.version) ?? '',
    ...optional('description', text(server.description)),
    ...optional('websiteUrl', text(server.websiteUrl)),
    capabilities: Object.keys(capabilities).filter((name) => name !== 'extensions' && name !== 'experimental'),
    extensions: isJsonObject(extensions) ? Object.keys(extensions) : [],
    ...optional('instructions', text(identity.instructions)),
  };
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function optional<Key extends string>(key: Key, value: string | undefined): { [K in Key]?: string } {
  const members: { [K in Key]?: string } = {};
  if (value !== undefined) members[key] = value;
  return members;
}
