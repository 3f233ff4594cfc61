import type { Attributes } from '@opentelemetry/api';
import { isJsonObject } from '@sluice/protocol/json/parse';
import {
  HEADER_PROTOCOL_VERSION,
  LEGACY_VERSIONS,
  META_PROTOCOL_VERSION,
  MODERN_VERSIONS,
} from '@sluice/protocol/mcp/constants';
import type { NotificationMessage, RequestMessage } from '@sluice/protocol/mcp/message';
import { serverAddress } from './metrics/instruments.ts';
import { MCP_METHODS } from './metrics/request-metrics.ts';
import { loggableMethod, loggablePath, loggableUri, type Subject } from './redaction.ts';
import type { RequestRecord } from './request-record.ts';
import type { Span, SpanStart } from './tracing/span.ts';

const MAX_ID_LENGTH = 1_024;
const MAX_VERSION_LENGTH = 32;
const VERSIONS: ReadonlySet<string> = new Set([...LEGACY_VERSIONS, ...MODERN_VERSIONS]);

/**
 * Returns the start of the span of a request: of a JSON-RPC message (OpenTelemetry's conventions for MCP, "Server"), or of a
 * proxied HTTP request. Undefined for requests without a span.
 */
export function serverSpan({ startedAt, request, context, upstream }: RequestRecord): SpanStart | undefined {
  const message = context?.message;
  if (message?.kind === 'response') return undefined;
  if (message) return { name: loggableMethod(message.method), role: 'server', startedAt };
  return upstream === undefined ? undefined : { name: request.method, role: 'server', startedAt };
}

/** Sets the name and attributes of the span of a request at its end; never arguments or results. */
export function completeServerSpan(span: Span, record: RequestRecord, status: number, cache: AttributeCache): void {
  const { request, caller, context } = record;
  const { own } = span;
  if (request.client !== undefined) own['client.address'] = request.client;
  if (caller.conversationId !== undefined) own['gen_ai.conversation.id'] = caller.conversationId;
  const message = context?.message;
  if (message && message.kind !== 'response') return setMessageAttributes(span, record, message, cache);
  own['sluice.decision'] = record.decision;
  own['http.request.method'] = request.method;
  own['http.response.status_code'] = status;
  own['url.path'] = loggablePath(request.target);
  own['url.scheme'] = 'http';
}

function setMessageAttributes(
  span: Span,
  record: RequestRecord,
  message: RequestMessage | NotificationMessage,
  cache: AttributeCache,
): void {
  const { own } = span;
  const { subject, decision, answer } = record;
  const { namespace, session } = record.context ?? {};
  const { method, params } = message;
  if (message.kind === 'request' && message.idText !== 'null') own['jsonrpc.request.id'] = requestId(message.idText);
  if (typeof params.uri === 'string') own['mcp.resource.uri'] = loggableUri(params.uri);
  if (session) own['mcp.session.id'] = session.id;
  if (answer?.errorCode !== undefined) own['rpc.response.status_code'] = String(answer.errorCode);
  if (subject) span.name = `${method} ${subject.name}`;
  const version = protocolVersion(record, message);
  // Keys must be unique; attributes with values that clients make up are not cached.
  const cacheable = MCP_METHODS.has(method) && (version === undefined || VERSIONS.has(version));
  const key = `${decision} ${version} ${namespace?.name ?? ''} ${method} ${subject?.kind} ${subject?.name}`;
  span.common = cache.get(cacheable ? key : undefined, () => ({
    'mcp.method.name': loggableMethod(method),
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'sluice.decision': decision,
    ...(namespace && { 'sluice.namespace': namespace.name }),
    ...(version !== undefined && { 'mcp.protocol.version': version }),
    ...(subject && subjectAttributes(subject)),
  }));
}

/** Returns the attributes of a tool or prompt. */
export function subjectAttributes({ kind, name }: Subject): Attributes {
  if (kind === 'prompt') return { 'gen_ai.prompt.name': name };
  return { 'gen_ai.tool.name': name, 'gen_ai.operation.name': 'execute_tool' };
}

/** Returns the protocol version of a message: from its metadata, the session or a header. */
function protocolVersion(
  { context, request }: RequestRecord,
  message: RequestMessage | NotificationMessage,
): string | undefined {
  const meta = context?.era === 'modern' && message.kind === 'request' ? message.params._meta : undefined;
  const declared = isJsonObject(meta) ? meta[META_PROTOCOL_VERSION] : undefined;
  const version = declared ?? context?.session?.protocolVersion ?? request.headers[HEADER_PROTOCOL_VERSION];
  return typeof version === 'string' ? version.slice(0, MAX_VERSION_LENGTH) : undefined;
}

/** Returns the id of a request from its JSON text; a string without its quotes. */
function requestId(idText: string): string {
  return (idText.startsWith('"') ? idText.slice(1, -1) : idText).slice(0, MAX_ID_LENGTH);
}

/** A recorded chat completion, without its content. */
export interface RecordedCompletion {
  readonly completionId: string | undefined;
  readonly requestModel: string | undefined;
  readonly responseModel: string | undefined;
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
  /** Finish reasons of the choices, if the response has any. */
  readonly finishReasons: readonly string[];
  /** HTTP status; 0 if the exchange ended before a response. */
  readonly statusCode: number;
  /** `performance.now()` at the end of the exchange. */
  readonly endedAt: number;
}

/**
 * Starts the span of a completion as a child of the request's span (OpenTelemetry's conventions for generative AI,
 * "Inference"). The provider `openai` is the form of the request, whoever serves it.
 */
export function completionSpan(record: RequestRecord, parent: Span, completion: RecordedCompletion): Span {
  const { startedAt, upstream, caller } = record;
  const { requestModel, responseModel, completionId, inputTokens, outputTokens, finishReasons } = completion;
  const { conversationId } = caller;
  const name = requestModel === undefined ? 'chat' : `chat ${requestModel}`;
  const span = parent.child({ name, role: 'client', startedAt });
  span.common = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'openai',
    ...(upstream !== undefined && serverAddress(upstream)),
    ...(requestModel !== undefined && { 'gen_ai.request.model': requestModel }),
    ...(responseModel !== undefined && { 'gen_ai.response.model': responseModel }),
    ...(completionId !== undefined && { 'gen_ai.response.id': completionId }),
    ...(conversationId !== undefined && { 'gen_ai.conversation.id': conversationId }),
    ...(inputTokens !== undefined && { 'gen_ai.usage.input_tokens': inputTokens }),
    ...(outputTokens !== undefined && { 'gen_ai.usage.output_tokens': outputTokens }),
    ...(finishReasons.length > 0 && { 'gen_ai.response.finish_reasons': [...finishReasons] }),
  };
  return span;
}

/** Further attributes are not cached: memory must not grow with what others send. */
const MAX_CACHED = 2_000;

/** Cache of attributes that many spans share: created once, and encoded once by the exporter. */
export class AttributeCache {
  readonly #cached = new Map<string, Attributes>();

  /** Returns the attributes of this key, which must determine them; without a key they are created for this span only. */
  get(key: string | undefined, create: () => Attributes): Attributes {
    if (key === undefined) return create();
    const cached = this.#cached.get(key);
    if (cached) return cached;
    const created = create();
    if (this.#cached.size < MAX_CACHED) this.#cached.set(key, created);
    return created;
  }
}
