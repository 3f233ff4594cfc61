import type { ServerInfo } from '@sluice/contract';
import { members, memberText } from '@sluice/protocol/json/scan';
import { META_SERVER_INFO } from '@sluice/protocol/mcp/constants';
import type { KnownCatalogue } from '../registry/entries.ts';

/**
 * What an upstream says of itself, as forwards show it (decisions 2.4): of several eras the first; undefined before the
 * first discovery.
 */
export function serverInfoOf(catalogues: readonly KnownCatalogue[]): ServerInfo | undefined {
  const [first] = catalogues;
  if (!first?.identity.startsWith('{')) return undefined;
  const { identity } = first;
  // Only what is shown is read: the rest of the text may be of any size and depth.
  const server = objectIn(identity, 'serverInfo') ?? objectIn(memberText(identity, '_meta') ?? '{}', META_SERVER_INFO);
  const capabilities = keysOf(memberText(identity, 'capabilities') ?? '{}');
  const extensions = keysOf(memberText(memberText(identity, 'capabilities') ?? '{}', 'extensions') ?? '{}');
  return {
    serverName: textIn(server, 'name') ?? '',
    version: textIn(server, 'version') ?? '',
    ...optional('description', textIn(server, 'description')),
    ...optional('websiteUrl', textIn(server, 'websiteUrl')),
    capabilities: capabilities.filter((name) => name !== 'extensions' && name !== 'experimental'),
    extensions,
    ...optional('instructions', textIn(identity, 'instructions')),
  };
}

/** The text of a member that is an object. */
function objectIn(json: string, key: string): string | undefined {
  const text = memberText(json, key);
  return text?.startsWith('{') ? text : undefined;
}

/** The value of a member that is a string. */
function textIn(json: string | undefined, key: string): string | undefined {
  const text = json === undefined ? undefined : memberText(json, key);
  return text?.startsWith('"') ? String(JSON.parse(text)) : undefined;
}

function keysOf(json: string): string[] {
  return [...members(json)].map(({ key }) => key);
}

function optional<Key extends string>(key: Key, value: string | undefined): { [K in Key]?: string } {
  const members: { [K in Key]?: string } = {};
  if (value !== undefined) members[key] = value;
  return members;
}
