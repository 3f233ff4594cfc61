import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import type { Entry } from '../registry/entries.ts';
import { AUTH_PREFIX } from '../telemetry/tool-calls/request-summary.ts';
import { asText, objectIn, textIn, textOfJson } from './as-text.ts';
import { becomesHeader, type GivenArguments, META_PREFIX, requireAll, textsOf } from './call-arguments.ts';
import type { ToolInvokeRequest } from './generated/tool/ToolInvokeRequest.ts';
import { ServiceError } from './service-error.ts';

/** The argument that becomes the request's body, for tools whose schema has it (decisions 4.10). */
const BODY = 'service_body';

/** A request that can be sent: its headers, which others look at, are there. */
export interface BuiltToolRequest extends ToolInvokeRequest {
  readonly headers: { [name: string]: string };
}

/**
 * The request that has a capability service carry out a tool (specification, "Request-building rules" 1 and 2; decisions
 * 4.10). Throws ServiceError INVALID_ARGUMENTS when a required parameter is missing, TOOL_DEFINITION_ERROR when a header
 * that the tool defines has no value.
 */
export function toolRequest(tool: Entry, given: GivenArguments): BuiltToolRequest {
  const schema = objectIn(tool.definition, 'inputSchema');
  const properties = objectIn(schema, 'properties');
  requireAll(schema.required, given);
  const hasBody = Object.hasOwn(properties, BODY);
  const texts = textsOf(given);
  const rest = texts.filter(([name]) => !becomesHeader(name) && !(hasBody && name === BODY));
  return {
    uri: textIn(tool.members, 'uri'),
    body: (hasBody && textOfJson(given[BODY])) || '',
    arguments: Object.fromEntries(rest),
    configurationURI: textIn(tool.members, 'configurationURI'),
    secretsURI: textIn(tool.members, 'secretsURI'),
    headers: Object.fromEntries(headersOf(tool.name, properties, given, texts)),
  };
}

/** Later ones win: what callers may say of their own, what the tool defines, and what authenticates. */
function headersOf(
  tool: string,
  properties: JsonObject,
  given: GivenArguments,
  texts: readonly (readonly [string, string])[],
): Map<string, string> {
  const headers = new Map<string, string>();
  const prefixed = (prefix: string): void => {
    for (const [name, text] of texts) {
      if (name.startsWith(prefix)) headers.set(name.slice(prefix.length), text);
    }
  };
  prefixed(META_PREFIX);
  for (const [name, property] of Object.entries(properties)) {
    if (!isJsonObject(property) || property.target !== 'header' || property.scope !== 'service') continue;
    const text = textOfJson(given[name]) ?? asText(property.value);
    if (text === undefined) {
      throw new ServiceError(
        'TOOL_DEFINITION_ERROR',
        `tool ${tool}: header ${name} has no value: give the argument, or the property a "value"`,
      );
    }
    headers.set(name.toWellFormed(), text);
  }
  prefixed(AUTH_PREFIX);
  headers.delete('');
  return headers;
}
