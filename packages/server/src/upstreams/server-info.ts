import type { ServerInfo } from '@sluice/contract';
import { members, memberText } from '@sluice/protocol/json/text';
import { META_SERVER_INFO } from '@sluice/protocol/mcp/constants';
import type { KnownCatalog } from '../registry/entries.ts';

/**
 * Returns the description of an upstream server for its forward, of several eras the first; undefined before the first discovery.
 */
export function readServerInfo(catalogs: readonly Pick<KnownCatalog, 'identity'>[]): ServerInfo | undefined {
  const [first] = catalogs;
  if (!first?.identity.startsWith('{')) return undefined;
  const { identity } = first;
  // The text is not parsed as a whole: it may be of any size and depth.
  const server =
    objectMember(identity, 'serverInfo') ?? objectMember(memberText(identity, '_meta') ?? '{}', META_SERVER_INFO);
  const capabilities = memberNames(memberText(identity, 'capabilities') ?? '{}');
  const extensions = memberNames(memberText(memberText(identity, 'capabilities') ?? '{}', 'extensions') ?? '{}');
  return {
    serverName: stringMember(server, 'name') ?? '',
    version: stringMember(server, 'version') ?? '',
    description: stringMember(server, 'description'),
    websiteUrl: stringMember(server, 'websiteUrl'),
    capabilities: capabilities.filter((name) => name !== 'extensions' && name !== 'experimental'),
    extensions,
    instructions: stringMember(identity, 'instructions'),
  };
}

/** Text of a member with an object value. */
function objectMember(json: string, key: string): string | undefined {
  const text = memberText(json, key);
  return text?.startsWith('{') ? text : undefined;
}

/** Value of a member with a string value. */
function stringMember(json: string | undefined, key: string): string | undefined {
  const text = json === undefined ? undefined : memberText(json, key);
  return text?.startsWith('"') ? String(JSON.parse(text)) : undefined;
}

function memberNames(json: string): string[] {
  return [...members(json)].map(({ key }) => key);
}
