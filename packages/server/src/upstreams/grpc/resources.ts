import { isJsonObject } from '@sluice/protocol/json/parse';
import type { Era } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import type { Entry } from '../../registry/entries.ts';
import type { ResourceRequest } from './generated/resource/ResourceRequest.ts';
import { textIn } from './tools.ts';

/**
 * The request that has a capability service provide a resource (specification, "Request-building rules" 3; decisions
 * 4.10). `location` is the uri that was asked for, which for a template is not the one registered.
 */
export function resourceRequest(resource: Entry, location: string): ResourceRequest {
  const { params } = resource.members;
  const given = Array.isArray(params) ? params.filter(isJsonObject) : [];
  return {
    location: location.toWellFormed(),
    type: textIn(resource.members, 'type'),
    name: resource.name,
    params: Object.fromEntries(given.map((param) => [textIn(param, 'name'), textIn(param, 'value')])),
    configurationURI: textIn(resource.members, 'configurationURI'),
    secretsURI: textIn(resource.members, 'secretsURI'),
  };
}

/** What reading a resource came to, as JSON text: a text of its contents for each of the reply's (decisions 4.10). */
export function resourceResult(
  era: Era,
  uri: string,
  { definition }: Pick<Entry, 'definition'>,
  content: readonly string[],
): string {
  const mimeType = textIn(definition, 'mimeType') || 'text/plain';
  const contents = content.map((text) => ({ uri, mimeType, text }));
  // The modern era asks how long it may be kept (2026-07-28, "Caching"): what was read for one caller is nothing to keep.
  return resultText(era, era === 'modern' ? { contents, ttlMs: 0, cacheScope: 'private' } : { contents });
}
