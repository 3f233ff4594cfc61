import type { ServerInfo } from '@sluice/contract';
import { memberText, memberTexts, stringValue } from '@sluice/protocol/json/text';
import { META_SERVER_INFO } from '@sluice/protocol/mcp/constants';
import type { KnownCatalog } from '../registry/entries.ts';

/**
 * Returns the description of an upstream server for its forward, of several eras the first; undefined before the first discovery.
 */
export function readServerInfo(catalogs: readonly Pick<KnownCatalog, 'identity'>[]): ServerInfo | undefined {
  const [first] = catalogs;
  if (!first?.identity.startsWith('{')) return undefined;
  // The text is not parsed as a whole: it may be of any size and depth.
  const identity = memberTexts(first.identity);
  const given = identity.get('serverInfo') ?? memberText(identity.get('_meta') ?? '{}', META_SERVER_INFO);
  const server = memberTexts(given ?? '{}');
  const capabilities = memberTexts(identity.get('capabilities') ?? '{}');
  return {
    serverName: stringOf(server.get('name')) ?? '',
    version: stringOf(server.get('version')) ?? '',
    description: stringOf(server.get('description')),
    websiteUrl: stringOf(server.get('websiteUrl')),
    capabilities: [...capabilities.keys()].filter((name) => name !== 'extensions' && name !== 'experimental'),
    extensions: [...memberTexts(capabilities.get('extensions') ?? '{}').keys()],
    instructions: stringOf(identity.get('instructions')),
  };
}

/** Value of a JSON string; undefined for other values. */
function stringOf(json: string | undefined): string | undefined {
  return json?.startsWith('"') ? stringValue(json) : undefined;
}
