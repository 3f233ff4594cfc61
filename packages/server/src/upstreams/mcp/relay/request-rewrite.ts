import type { IncomingHttpHeaders } from 'node:http';
import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { type Edit, insertEdit, members, removeEdits } from '@sluice/protocol/json/text';
import {
  HEADER_METHOD,
  HEADER_NAME,
  HEADER_PARAM_PREFIX,
  META_CLIENT_CAPABILITIES,
  NAME_PARAM,
} from '@sluice/protocol/mcp/constants';
import { withoutRetiredCode } from '@sluice/protocol/mcp/era';
import { membersOf, type Range, type RequestMessage } from '@sluice/protocol/mcp/message';
import { TASKS_EXTENSION } from '@sluice/protocol/mcp/methods';
import { encodeHeaderValue, type MirroredParams } from '@sluice/protocol/mcp/param-headers';
import { commaList, InvalidSettingError, quote, textSchema } from '../../../http/settings.ts';
import { PEER_HEADER_PREFIX } from '../../../identity/peer.ts';
import {
  TRACE_MEMBERS,
  type TraceContext,
  traceHeaders,
  traceMembers,
} from '../../../telemetry/tracing/trace-context.ts';
import type { RewrittenResponse } from './call-plan.ts';

/** Edits of a request's text for the upstream. */
export interface RequestEdits {
  readonly edits: Edit[];
  /** Position of the client's progress token; undefined if it wants no progress. */
  readonly progressToken: Edit | undefined;
}

/** Returns the edits that insert the upstream's own name of the target, if it has one, and the progress token's position. */
export function requestEdits(message: RequestMessage, name?: string): RequestEdits {
  const { paramMembers, method } = message;
  const token = membersOf(paramMembers, '_meta').find(({ key }) => key === 'progressToken');
  const progressToken = token && { start: token.start, end: token.end, text: '' };
  const member = method === 'completion/complete' ? 'ref' : NAME_PARAM.get(method);
  const target = name === undefined ? undefined : paramMembers.find(({ key }) => key === member);
  if (!target || name === undefined) return { edits: [], progressToken };
  return { edits: renameEdits(message, target, name), progressToken };
}

/** Returns the position of a request's progress token; undefined if its client wants no progress. */
export function progressTokenOf(message: RequestMessage): Edit | undefined {
  return requestEdits(message).progressToken;
}

/** Returns the name or URI in a request, as sent by the client; empty for methods without one. */
export function calledName({ method, params }: RequestMessage): string {
  const { ref } = params;
  if (method === 'completion/complete') return isJsonObject(ref) ? String(ref.name ?? ref.uri) : '';
  const member = NAME_PARAM.get(method);
  return member === undefined ? '' : String(params[member]);
}

function renameEdits(message: RequestMessage, { start, end }: Range, name: string): Edit[] {
  if (message.method !== 'completion/complete') return [{ start, end, text: JSON.stringify(name) }];
  // All members of that name: an upstream may read either of two.
  const names = [...members(message.text, start)].filter(({ key }) => key === 'name');
  return names.map((found) => ({ start: found.start, end: found.end, text: JSON.stringify(name) }));
}

/** Returns the edits that insert members, as JSON text, into a request's `_meta` and remove those with these names. */
export function metaEdits(
  { text, params, paramsRange, paramMembers }: RequestMessage,
  inserted: string,
  names: readonly string[],
): Edit[] {
  if (!paramsRange) {
    if (inserted === '') return [];
    const end = text.lastIndexOf('}');
    return [{ start: end, end, text: `,"params":{"_meta":{${inserted}}}` }];
  }
  const { _meta: meta } = params;
  if (!isJsonObject(meta)) {
    return inserted === '' ? [] : replaceMembers(text, paramsRange.start, params, `"_meta":{${inserted}}`, ['_meta']);
  }
  const member = paramMembers.find(({ key }) => key === '_meta');
  return member ? replaceMembers(text, member.start, meta, inserted, names) : [];
}

/**
 * Returns the edits that insert members into the object that begins at `start` and has the value `object`, and remove those
 * with these names: of two members with one name an upstream might read the other.
 */
export function replaceMembers(
  text: string,
  start: number,
  object: JsonObject,
  inserted: string,
  names: readonly string[],
): Edit[] {
  if (!names.some((name) => Object.hasOwn(object, name)))
    return inserted === '' ? [] : [insertEdit(text, start, inserted)];
  const hasOthers = Object.keys(object).some((key) => !names.includes(key));
  const first = { start: start + 1, end: start + 1, text: hasOthers && inserted !== '' ? `${inserted},` : inserted };
  return [first, ...removeEdits(text, start, (key) => names.includes(key))];
}

/** Returns the edits that replace the trace context in a request's `_meta`. */
export function traceEdits(message: RequestMessage, trace: TraceContext): Edit[] {
  return metaEdits(message, traceMembers(trace), TRACE_MEMBERS);
}

/** Returns the edits that add the tasks extension to the capabilities that a modern request declares. */
export function declareTasks({ text, params, paramMembers }: RequestMessage): Edit[] {
  const capabilities = membersOf(paramMembers, '_meta').find(({ key }) => key === META_CLIENT_CAPABILITIES);
  const meta = params._meta;
  const declared = isJsonObject(meta) ? meta[META_CLIENT_CAPABILITIES] : undefined;
  if (!capabilities || !isJsonObject(declared)) return [];
  const extension = `"${TASKS_EXTENSION}":{}`;
  if (!isJsonObject(declared.extensions)) {
    return replaceMembers(text, capabilities.start, declared, `"extensions":{${extension}}`, ['extensions']);
  }
  const extensions = [...members(text, capabilities.start)].findLast(({ key }) => key === 'extensions');
  return extensions ? replaceMembers(text, extensions.start, declared.extensions, extension, [TASKS_EXTENSION]) : [];
}

/** Returns the headers with this trace context in place of the client's. */
export function withTrace(headers: readonly string[], trace: TraceContext): string[] {
  const others = headers.filter((_, at) => !TRACE_MEMBERS.includes(headers[at - (at % 2)] ?? ''));
  return [...others, ...traceHeaders(trace)];
}

/**
 * Returns the headers that mirror the body of a modern request (2026-07-28, Streamable HTTP); `name` is the upstream's
 * name of the target, `params` what its tool declares. `Mcp-Param-*` headers that the tool does not declare are
 * forwarded, as the protocol requires of intermediaries that do not recognize them, and so is `Mcp-Name` of methods
 * that only the upstream knows: extensions define its content.
 */
export function modernHeaders(
  message: RequestMessage,
  name: string,
  client: IncomingHttpHeaders,
  params: MirroredParams | undefined,
): string[] {
  const headers = [HEADER_METHOD, message.method];
  const clientName = client[HEADER_NAME];
  if (NAME_PARAM.has(message.method)) headers.push(HEADER_NAME, encodeHeaderValue(name));
  else if (typeof clientName === 'string') headers.push(HEADER_NAME, clientName);
  if (params) headers.push(...params.headersFor(message));
  for (const header of Object.keys(client)) {
    if (!header.startsWith(HEADER_PARAM_PREFIX) || params?.has(header)) continue;
    const value = client[header];
    if (typeof value === 'string') headers.push(header, value);
  }
  return headers;
}

/**
 * Replaces an error code that the modern era has retired, for modern clients of upstreams of either era. Returns undefined for
 * other responses. `newRestartState` creates the `requestState` of a client that is to visit a URL and then to call again.
 */
export function replaceRetiredCode(
  text: string,
  { error }: JsonObject,
  method: string,
  capabilities: JsonObject,
  newRestartState?: () => string,
): RewrittenResponse | undefined {
  if (!isJsonObject(error)) return undefined;
  const changed = withoutRetiredCode(text, error, method, capabilities, newRestartState);
  const parsed = changed === undefined ? undefined : tryParseJson(changed);
  return changed !== undefined && isJsonObject(parsed) ? { text: changed, value: parsed } : undefined;
}

/**
 * Names of request headers that are copied upstream (lower case, unique), and a warning for each name that is not
 * allowed.
 */
interface ForwardHeaders {
  readonly names: readonly string[];
  readonly warnings: readonly string[];
}

const NEVER_COPIED: ReadonlySet<string> = new Set([
  'accept',
  'last-event-id',
  'host',
  'content-type',
  'content-length',
  'x-service-hops',
  // Hop-by-hop headers belong to the connection with the client.
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/**
 * Returns whether a header (lower case) is never copied, regardless of the allowlist. This includes the headers of replicas, and
 * all `mcp-*` headers: the relay sets these, and passes unrecognized `Mcp-Param-*` headers on regardless of the list.
 */
export function isNeverCopied(name: string): boolean {
  return name.startsWith('mcp-') || name.startsWith(PEER_HEADER_PREFIX) || NEVER_COPIED.has(name);
}

const FIELD_NAME = /^[!#$%&'+.^_`|~0-9a-z-]+$/;

/** Comma-separated list of SERVICE_FORWARD_HEADERS. */
export const forwardHeaders = textSchema(
  'a comma-separated list of header names, without wildcards',
  (text): ForwardHeaders => {
    const listed = new Set(commaList(text).map((name) => name.toLowerCase()));
    const invalid = [...listed].find((name) => !FIELD_NAME.test(name));
    if (invalid !== undefined) throw new InvalidSettingError(`contains the invalid header name ${quote(invalid)}`);
    return {
      names: [...listed].filter((name) => !isNeverCopied(name)),
      warnings: [...listed]
        .filter(isNeverCopied)
        .map((name) => `header ${quote(name)} is never forwarded to upstreams and is ignored`),
    };
  },
);

/**
 * Returns the header names in the label `service.forward_headers` of an entry, in lower case. A label is free text: invalid
 * names and headers that are never copied are skipped.
 */
export function labelHeaders(text: string): readonly string[] {
  const names = commaList(text).map((name) => name.toLowerCase());
  return names.filter((name) => FIELD_NAME.test(name) && !isNeverCopied(name));
}
