import { isJsonObject } from '@sluice/protocol/json/parse';
import type { Era } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import type { Entry } from '../../registry/entries.ts';
import type { ResourceRequest } from './generated/resource/ResourceRequest.ts';
import { stringMember } from './tool-operation.ts';

/**
 * Builds the request to acquire a resource (specification, "Request-building rules" 3; decisions 4.10). `location` is the
 * requested uri, which for a template differs from the registered one.
 */
export function resourceRequest(resource: Entry, location: string): ResourceRequest {
  const { params } = resource.members;
  const pairs = Array.isArray(params) ? params.filter(isJsonObject) : [];
  return {
    location: location.toWellFormed(),
    type: stringMember(resource.members, 'type'),
    name: resource.name,
    params: Object.fromEntries(pairs.map((param) => [stringMember(param, 'name'), stringMember(param, 'value')])),
    configurationURI: stringMember(resource.members, 'configurationURI'),
    secretsURI: stringMember(resource.members, 'secretsURI'),
  };
}

/** Result of reading a resource, as JSON text, with one text content per text of the reply (decisions 4.10). */
export function resourceResult(
  era: Era,
  uri: string,
  { definition }: Pick<Entry, 'definition'>,
  content: readonly string[],
): string {
  const mimeType = stringMember(definition, 'mimeType') || 'text/plain';
  const contents = content.map((text) => ({ uri, mimeType, text }));
  // The modern era requires cache hints (2026-07-28, "Caching"): what was read for one caller must not be cached.
  return resultText(era, era === 'modern' ? { contents, ttlMs: 0, cacheScope: 'private' } : { contents });
}
