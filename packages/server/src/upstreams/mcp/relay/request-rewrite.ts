import type { IncomingHttpHeaders } from 'node:http';
import { type Edit, insertEdit, removeEdits } from '@sluice/protocol/json/edit';
import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/scan';
import {
  HEADER_HOPS,
  HEADER_METHOD,
  HEADER_NAME,
  HEADER_PARAM_PREFIX,
  NAME_PARAM,
} from '@sluice/protocol/mcp/constants';
import { withoutRetiredCode } from '@sluice/protocol/mcp/era';
import { type RequestMessage, refusalOf } from '@sluice/protocol/mcp/message';
import { encodeHeaderValue, type MirroredParams } from '@sluice/protocol/mcp/param-headers';
import {
  TRACE_MEMBERS,
  type TraceContext,
  traceHeaders,
  traceMembers,
} from '../../../telemetry/tracing/trace-context.ts';
import type { AnswerRewriting, Rewritten } from './relay.ts';

/** Where a request's text must differ upstream. */
export interface RequestEdits {
  readonly edits: Edit[];
  /** Where the client's progress token stands; undefined when it wants no progress. */
  readonly progressToken: Edit | undefined;
}

/** Puts in the upstream's own name for what is called, and finds the progress token. */
export function requestEdits(message: RequestMessage, name: string): RequestEdits {
  const { text, params, paramsRange, method } = message;
  const renamed = calledName(message) !== name;
  const meta = params._meta;
  const wantsProgress = isJsonObject(meta) && meta.progressToken !== undefined;
  const edits: Edit[] = [];
  let progressToken: Edit | undefined;
  if (!paramsRange || (!renamed && !wantsProgress)) return { edits, progressToken };
  const member = method === 'completion/complete' ? 'ref' : NAME_PARAM.get(method);
  for (const { key, start, end } of members(text, paramsRange.start)) {
    if (renamed && key === member) edits.push(...renaming(method, text, start, end, name));
    if (!wantsProgress || key !== '_meta') continue;
    for (const found of members(text, start)) {
      if (found.key === 'progressToken') progressToken = { start: found.start, end: found.end, text: '' };
    }
  }
  return { edits, progressToken };
}

/** Where a request's progress token stands; undefined when its client wants no progress. */
export function progressTokenOf(message: RequestMessage): Edit | undefined {
  return requestEdits(message, calledName(message)).progressToken;
}

/** The name or uri that a request addresses, as the client spelled it; empty for methods that address nothing by name. */
export function calledName({ method, params }: RequestMessage): string {
  const { ref } = params;
  if (method === 'completion/complete') return isJsonObject(ref) ? String(ref.name ?? ref.uri) : '';
  const member = NAME_PARAM.get(method);
  return member === undefined ? '' : String(params[member]);
}

function renaming(method: string, text: string, start: number, end: number, name: string): Edit[] {
  if (method !== 'completion/complete') return [{ start, end, text: JSON.stringify(name) }];
  // Every one of that name: which of two an upstream reads is its own affair.
  const names = [...members(text, start)].filter(({ key }) => key === 'name');
  return names.map((found) => ({ start: found.start, end: found.end, text: JSON.stringify(name) }));
}

/** Puts members, as JSON text, into a request's `_meta`, and takes those of these names out; all else stays as it is. */
export function metaEdits(
  { text, params, paramsRange }: RequestMessage,
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
    return inserted === '' ? [] : replacing(text, paramsRange.start, params, `"_meta":{${inserted}}`, ['_meta']);
  }
  const edits: Edit[] = [];
  for (const { key, start } of members(text, paramsRange.start)) {
    if (key === '_meta') edits.push(...replacing(text, start, meta, inserted, names));
  }
  return edits;
}

/**
 * Inserts members at the beginning of the object that begins at `start` and has the value `object`, and takes those of
 * these names out: of two of one name an upstream might obey the other.
 */
export function replacing(
  text: string,
  start: number,
  object: JsonObject,
  inserted: string,
  names: readonly string[],
): Edit[] {
  if (!names.some((name) => Object.hasOwn(object, name)))
    return inserted === '' ? [] : [insertEdit(text, start, inserted)];
  const stays = Object.keys(object).some((key) => !names.includes(key));
  const first = { start: start + 1, end: start + 1, text: stays && inserted !== '' ? `${inserted},` : inserted };
  return [first, ...removeEdits(text, start, (key) => names.includes(key))];
}

/** Puts the trace into a request's `_meta`, in the place of the one that the client's request came from. */
export function traceEdits(message: RequestMessage, trace: TraceContext): Edit[] {
  return metaEdits(message, traceMembers(trace), TRACE_MEMBERS);
}

/** The headers of a request upstream with its trace, which is not the client's own. */
export function withTrace(headers: readonly string[], trace: TraceContext): string[] {
  const others = headers.filter((_, at) => !TRACE_MEMBERS.includes(headers[at - (at % 2)] ?? ''));
  return [...others, ...traceHeaders(trace)];
}

/** A request that has crossed this many gateways goes in a circle (decisions 4.3). */
const MAX_HOPS = 8;

/** What the count of gateways is with us, to be sent on; undefined when the request goes in a circle. */
export function nextHop(headers: IncomingHttpHeaders): number | undefined {
  const value = headers[HEADER_HOPS];
  const hops = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : 0;
  return hops >= MAX_HOPS ? undefined : hops + 1;
}

/** The client's headers of these names (lower case), as they came: names and values, alternating. */
export function copiedHeaders(headers: IncomingHttpHeaders, names: Iterable<string>): string[] {
  const copied: string[] = [];
  for (const name of names) {
    const value = headers[name];
    for (const line of Array.isArray(value) ? value : [value]) if (line !== undefined) copied.push(name, line);
  }
  return copied;
}

/**
 * The headers that mirror the body of a modern request, made anew for the upstream (2026-07-28, Streamable HTTP); `name`
 * is what the upstream calls the thing that is addressed, `params` what its tool declares. A client's `Mcp-Param-*` that
 * the tool does not declare are passed on, as the protocol demands of who does not recognise them, and so is its
 * `Mcp-Name` on a method that only the upstream knows: extensions say what stands in it.
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

/** Keeps error codes from modern clients that their era has retired, whichever era the upstream is of (mcp 1). */
export class ModernErrors implements AnswerRewriting {
  readonly #method: string;
  readonly #capabilities: JsonObject;
  readonly #visit: (() => string) | undefined;

  /** `visit`: makes the `requestState` of a client that has to visit an address and then to call anew, where there is one. */
  constructor(method: string, capabilities: JsonObject, visit?: () => string) {
    this.#method = method;
    this.#capabilities = capabilities;
    this.#visit = visit;
  }

  refused(): void {}

  rewrite(text: string, value: JsonObject): Rewritten | undefined {
    if (!isJsonObject(value.error)) return undefined;
    const changed = withoutRetiredCode(text, value.error, this.#method, this.#capabilities, this.#visit);
    const parsed = changed === undefined ? undefined : tryParseJson(changed);
    return changed !== undefined && isJsonObject(parsed) ? { text: changed, value: parsed } : undefined;
  }
}

/** Requests of an upstream that are being answered at once; further ones are not answered. */
const MAX_ANSWERING = 16;

/** Answers the requests of an upstream that come where no client can be asked, a few at a time. */
export class Refusals {
  readonly #deliver: (answer: string) => Promise<void>;
  #answering = 0;

  /** `deliver` sends the upstream an answer; one that it does not take is lost. */
  constructor(deliver: (answer: string) => Promise<void>) {
    this.#deliver = deliver;
  }

  /** Answers the request `text`, whose method this is. */
  refuse(text: string, method: unknown): void {
    if (this.#answering >= MAX_ANSWERING) return;
    this.#answering++;
    this.#deliver(refusalOf(text, method))
      .catch(() => undefined)
      .finally(() => {
        this.#answering--;
      });
  }
}
