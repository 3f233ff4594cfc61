import type { IncomingHttpHeaders } from 'node:http';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { applyEdits, type Edit, editBytes, insertEdit, members, removeEdits } from '@sluice/protocol/json/text';
import {
  HEADER_METHOD,
  HEADER_NAME,
  HEADER_PARAM_PREFIX,
  LATEST_MODERN,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_LOG_LEVEL,
  META_PROTOCOL_VERSION,
  NAME_PARAM,
} from '@sluice/protocol/mcp/constants';
import { membersOf, progressTokenRange, type RequestMessage } from '@sluice/protocol/mcp/message';
import { TASKS_EXTENSION } from '@sluice/protocol/mcp/methods';
import { encodeHeaderValue, type MirroredParams } from '@sluice/protocol/mcp/param-headers';
import { META_RELATED_TASK } from '@sluice/protocol/mcp/tasks';
import type { UpstreamRequest } from '../../../http/client/client.ts';
import {
  TRACE_MEMBERS,
  type TraceContext,
  traceHeaders,
  traceMembers,
} from '../../../telemetry/tracing/trace-context.ts';

/** Members of `_meta` that every modern request has. */
export const MODERN_META: readonly string[] = [
  META_PROTOCOL_VERSION,
  META_CLIENT_INFO,
  META_CLIENT_CAPABILITIES,
  META_LOG_LEVEL,
];
/** Params that only a retry has. */
export const RETRY_PARAMS: readonly string[] = ['inputResponses', 'requestState'];
/** Params of a legacy request that a modern one does not have: the request for a task, and those of a retry. */
const REPLACED_PARAMS: readonly string[] = [...RETRY_PARAMS, 'task'];

/** Metadata that a legacy client declares once and a modern upstream expects with every request. */
export interface ModernMetadata {
  readonly clientInfo: JsonObject;
  /** Capabilities of the client. */
  readonly capabilities: JsonObject;
  /** Minimum level of log messages; undefined for none. */
  readonly logLevel: string | undefined;
}

/**
 * Edits of a client's request for its upstream: of the text, at the positions that parsing has found, and of the headers. There is
 * none of its arguments, or of a uri: they are sent as the client has written them.
 */
export class RequestEdits {
  /** Headers besides those of the session and those that mirror the message: names and values, alternating. */
  headers: readonly string[];
  readonly #message: RequestMessage;
  #mirrored: readonly string[];
  #name: string | undefined = undefined;
  #trace: TraceContext | undefined = undefined;
  readonly #edits: Edit[] = [];

  /** `mirrored`: headers that mirror the message. */
  constructor(message: RequestMessage, headers: readonly string[], mirrored: readonly string[] = []) {
    this.#message = message;
    this.headers = headers;
    this.#mirrored = mirrored;
  }

  /** Name or uri of the target, as the upstream gets it; empty for methods without one. */
  get name(): string {
    return this.#name ?? calledName(this.#message);
  }

  /** Replaces the name of the target, or the id of the task, by that of the upstream. */
  rename(name: string): void {
    if (name === this.name) return;
    this.#name = name;
    const { paramMembers, method, text } = this.#message;
    const isReference = method === 'completion/complete';
    const param = isReference ? 'ref' : (NAME_PARAM.get(method) ?? 'taskId');
    const target = paramMembers.find(({ key }) => key === param);
    if (!target) return;
    // Of a reference all members of that name: an upstream may read either of two.
    const found = isReference ? [...members(text, target.start)].filter(({ key }) => key === 'name') : [target];
    for (const { start, end } of found) this.#edits.push({ start, end, text: JSON.stringify(name) });
  }

  /**
   * Adds the headers that mirror the body of a modern request (2026-07-28, Streamable HTTP); `params` is what the tool declares.
   * `Mcp-Param-*` headers that it does not declare are forwarded, as the protocol requires of intermediaries that do not
   * recognize them, and so is `Mcp-Name` of methods that only the upstream knows: extensions define its content.
   */
  mirror(client: IncomingHttpHeaders, params: MirroredParams | undefined): void {
    const { method } = this.#message;
    const headers = [HEADER_METHOD, method];
    const clientName = client[HEADER_NAME];
    if (NAME_PARAM.has(method)) headers.push(HEADER_NAME, encodeHeaderValue(this.name));
    else if (typeof clientName === 'string') headers.push(HEADER_NAME, clientName);
    if (params) headers.push(...params.headersFor(this.#message));
    for (const header of Object.keys(client)) {
      if (!header.startsWith(HEADER_PARAM_PREFIX) || params?.has(header)) continue;
      const value = client[header];
      if (typeof value === 'string') headers.push(header, value);
    }
    this.#mirrored = headers;
  }

  /** Replaces the trace context of the client, in the headers and in `_meta`. */
  setTrace(trace: TraceContext): void {
    const { headers } = this;
    const others = headers.filter((_, at) => !TRACE_MEMBERS.includes(headers[at - (at % 2)] ?? ''));
    this.headers = [...others, ...traceHeaders(trace)];
    this.#trace = trace;
  }

  /** Replaces the task which a legacy request is related to, if there is one. */
  relateTask(taskId: string): void {
    const related = membersOf(this.#message.paramMembers, '_meta').find(({ key }) => key === META_RELATED_TASK);
    if (related) this.#edits.push({ start: related.start, end: related.end, text: JSON.stringify({ taskId }) });
  }

  /** Requests a task of a legacy upstream. */
  requestTask(): void {
    const { text, paramsRange } = this.#message;
    if (paramsRange) this.#edits.push(insertEdit(text, paramsRange.start, '"task":{}'));
  }

  /** Adds the tasks extension to the capabilities that a modern request declares. */
  declareTasks(): void {
    const { text, params, paramMembers } = this.#message;
    const capabilities = membersOf(paramMembers, '_meta').find(({ key }) => key === META_CLIENT_CAPABILITIES);
    const declared = isJsonObject(params._meta) ? params._meta[META_CLIENT_CAPABILITIES] : undefined;
    if (!capabilities || !isJsonObject(declared)) return;
    const extension = `"${TASKS_EXTENSION}":{}`;
    const { extensions } = declared;
    if (!isJsonObject(extensions)) {
      const object = { text, start: capabilities.start, value: declared };
      this.#edits.push(...replaceMembers(object, { added: `"extensions":{${extension}}`, removed: ['extensions'] }));
      return;
    }
    const member = [...members(text, capabilities.start)].findLast(({ key }) => key === 'extensions');
    const object = { text, start: member?.start ?? 0, value: extensions };
    this.#edits.push(...replaceMembers(object, { added: extension, removed: [TASKS_EXTENSION] }));
  }

  /** Removes the responses to requests for input other than those with these keys. */
  keepInputs(keys: readonly string[]): void {
    const { text, paramMembers } = this.#message;
    const member = paramMembers.find(({ key }) => key === 'inputResponses');
    if (member) this.#edits.push(...removeEdits(text, member.start, (key) => !keys.includes(key)));
  }

  /**
   * Returns the edits for a legacy upstream: without the params of a retry, and without the metadata of a modern request, which
   * legacy servers may reject.
   */
  toLegacy(): RequestEdits {
    return this.#with(this.#metaChange([]), { added: '', removed: RETRY_PARAMS });
  }

  /** Returns the edits for a modern upstream, with the metadata of the request. `more`: further params, as JSON text. */
  toModern({ clientInfo, capabilities, logLevel }: ModernMetadata, more: readonly string[] = []): RequestEdits {
    const own = JSON.stringify({
      [META_PROTOCOL_VERSION]: LATEST_MODERN,
      [META_CLIENT_INFO]: clientInfo,
      [META_CLIENT_CAPABILITIES]: capabilities,
      [META_LOG_LEVEL]: logLevel,
    }).slice(1, -1);
    return this.#with(this.#metaChange([own]), { added: more.join(','), removed: REPLACED_PARAMS });
  }

  /** The change of `_meta` for another era, with that of the trace; `own` are members of that era. */
  #metaChange(own: readonly string[]): MemberChange {
    if (!this.#trace) return { added: own.join(','), removed: MODERN_META };
    const added = [...own, traceMembers(this.#trace)].join(',');
    return { added, removed: [...MODERN_META, ...TRACE_MEMBERS] };
  }

  /** Returns a copy with these changes for another era, which include those of the trace. */
  #with(meta: MemberChange, others: MemberChange): RequestEdits {
    const copy = new RequestEdits(this.#message, this.headers, this.#mirrored);
    copy.#edits.push(...this.#edits, ...paramEdits(this.#message, meta, others));
    return copy;
  }

  /** Returns the request with this id, which is its progress token, too, in a session with these headers. */
  request(id: number, sessionHeaders: readonly string[]): UpstreamRequest {
    const message = this.#message;
    const { start, end } = message.idRange;
    const text = String(id);
    const edits = [{ start, end, text }, ...this.#edits];
    if (this.#trace) edits.push(...paramEdits(message, { added: traceMembers(this.#trace), removed: TRACE_MEMBERS }));
    const isAscii = message.isAscii && edits.length === 1;
    const token = progressTokenRange(message);
    if (token) edits.push({ start: token.start, end: token.end, text });
    const body = message.bytes ? editBytes(message.bytes, edits) : applyEdits(message.text, edits);
    return { method: 'POST', headers: [...sessionHeaders, ...this.headers, ...this.#mirrored], body, isAscii };
  }
}

/** Returns the name or uri in a request, as sent by the client; empty for methods without one. */
export function calledName({ method, params }: RequestMessage): string {
  const { ref } = params;
  if (method === 'completion/complete') return isJsonObject(ref) ? String(ref.name ?? ref.uri) : '';
  const member = NAME_PARAM.get(method);
  return member === undefined ? '' : String(params[member]);
}

/** Members that an object gets, as JSON text, and names of those that it loses. */
interface MemberChange {
  readonly added: string;
  readonly removed: readonly string[];
}

const UNCHANGED: MemberChange = { added: '', removed: [] };

/** Returns the edits of a request's `_meta`, which is created if it gets members, and of its other params. */
function paramEdits(
  { text, params, paramsRange, paramMembers }: RequestMessage,
  meta: MemberChange,
  others: MemberChange = UNCHANGED,
): Edit[] {
  const { _meta: value } = params;
  const member = paramMembers.find(({ key }) => key === '_meta');
  if (paramsRange && member && isJsonObject(value)) {
    return [
      ...replaceMembers({ text, start: paramsRange.start, value: params }, others),
      ...replaceMembers({ text, start: member.start, value }, meta),
    ];
  }
  // One edit: two might overlap.
  const created = meta.added === '' ? [] : [`"_meta":{${meta.added}}`];
  const added = [...created, others.added].filter((members) => members !== '').join(',');
  const removed = meta.added === '' ? others.removed : [...others.removed, '_meta'];
  if (paramsRange) return replaceMembers({ text, start: paramsRange.start, value: params }, { added, removed });
  const end = text.lastIndexOf('}');
  return added === '' ? [] : [{ start: end, end, text: `,"params":{${added}}` }];
}

/** An object in a text, and its value. */
interface ObjectText {
  readonly text: string;
  readonly start: number;
  readonly value: JsonObject;
}

/**
 * Returns the edits that insert members into an object, and remove those with these names: of two members with one name an
 * upstream might read the other.
 */
function replaceMembers({ text, start, value }: ObjectText, { added, removed }: MemberChange): Edit[] {
  if (!removed.some((name) => Object.hasOwn(value, name))) return added === '' ? [] : [insertEdit(text, start, added)];
  const hasOthers = Object.keys(value).some((key) => !removed.includes(key));
  const first = { start: start + 1, end: start + 1, text: hasOthers && added !== '' ? `${added},` : added };
  return [first, ...removeEdits(text, start, (key) => removed.includes(key))];
}
