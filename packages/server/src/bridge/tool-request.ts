import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/json/lossless';
import type { Entry } from '../registry/entries.ts';
import { AUTH_PREFIX, asText, asTexts, becomesHeader, META_PREFIX, own, textIn } from './arguments.ts';
import type { ToolInvokeRequest } from './generated/tool/ToolInvokeRequest.ts';
import { ServiceError } from './service-error.ts';

/** The argument that becomes the request's body, for tools whose schema has it (decisions 4.10). */
const BODY = 'service_body';

/**
 * The request that has a capability service carry out a tool (specification, "Request-building rules" 1 and 2; decisions
 * 4.10). Throws ServiceError INVALID_ARGUMENTS when a required parameter is missing, TOOL_DEFINITION_ERROR when a header
 * that the tool defines has no value.
 */
export function toolRequest(tool: Entry, given: JsonObject): ToolInvokeRequest {
  const schema = objectIn(tool.definition, 'inputSchema');
  const properties = objectIn(schema, 'properties');
  requireAll(schema.required, given);
  const hasBody = Object.hasOwn(properties, BODY);
  const rest = asTexts(given).filter(([name]) => !becomesHeader(name) && !(hasBody && name === BODY));
  return {
    uri: textIn(tool.members, 'uri'),
    body: (hasBody && asText(own(given, BODY))) || '',
    arguments: Object.fromEntries(rest),
    configurationURI: textIn(tool.members, 'configurationURI'),
    secretsURI: textIn(tool.members, 'secretsURI'),
    headers: Object.fromEntries(headersOf(tool.name, properties, given)),
  };
}

/** Throws ServiceError INVALID_ARGUMENTS unless all arguments were given that a schema requires; a null is none. */
export function requireAll(required: JsonValue | undefined, given: JsonObject): void {
  if (!Array.isArray(required)) return;
  const missing = required.filter((name) => typeof name === 'string' && asText(own(given, name)) === undefined);
  if (missing.length > 0) {
    throw new ServiceError('INVALID_ARGUMENTS', `Missing required parameter(s): ${missing.join(', ')}`);
  }
}

/** Later ones win: what callers may say of their own, what the tool defines, and what authenticates. */
function headersOf(tool: string, properties: JsonObject, given: JsonObject): Map<string, string> {
  const headers = new Map<string, string>();
  const prefixed = (prefix: string): void => {
    for (const [name, text] of asTexts(given))
      if (name.startsWith(prefix)) headers.set(name.slice(prefix.length), text);
  };
  prefixed(META_PREFIX);
  for (const [name, property] of Object.entries(properties)) {
    if (!isJsonObject(property) || property.target !== 'header' || property.scope !== 'service') continue;
    const text = asText(own(given, name)) ?? asText(property.value);
    if (text === undefined) {
      throw new ServiceError(
        'TOOL_DEFINITION_ERROR',
        `tool ${tool}: header ${name} has no value: neither argument nor default`,
      );
    }
    headers.set(name.toWellFormed(), text);
  }
  prefixed(AUTH_PREFIX);
  headers.delete('');
  return headers;
}

function objectIn(object: JsonObject, member: string): JsonObject {
  const value = own(object, member);
  return isJsonObject(value) ? value : {};
}
