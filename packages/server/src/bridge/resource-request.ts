import { isJsonObject } from '@sluice/protocol/json/parse';
import type { Entry } from '../registry/entries.ts';
import { textIn } from './as-text.ts';
import type { ResourceRequest } from './generated/resource/ResourceRequest.ts';

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
