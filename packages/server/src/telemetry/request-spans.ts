import type { Attributes } from '@opentelemetry/api';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { HEADER_PROTOCOL_VERSION, META_PROTOCOL_VERSION } from '@sluice/protocol/mcp/constants';
import type { NotificationMessage, RequestMessage } from '@sluice/protocol/mcp/message';
import { serverAddress } from './metrics/instruments.ts';
import { loggableMethod, loggablePath, loggableUri, type Subject } from './redaction.ts';
import type { RequestRecord } from './request-record.ts';
import type { Span, SpanStart } from './tracing/span.ts';

const MAX_ID_LENGTH = 1_024;
const MAX_VERSION_LENGTH = 32;
const MAX_USER_LENGTH = 256;

/**
 * Returns the start of the span of a request: of a JSON-RPC message (OpenTelemetry's conventions for MCP, "Server"), or of a
 * proxied HTTP request. Undefined for requests without a span.
 */
export function serverSpan({ startedAt, head, context, upstream }: RequestRecord): SpanStart | undefined {
  const message = context?.message;
  if (message?.kind === 'response') return undefined;
  if (message) return { name: loggableMethod(message.method), role: 'server', startedAt };
  return upstream === undefined ? undefined : { name: head.method, role: 'server', startedAt };
}

/** Sets the name and attributes of the span of a request at its end; never arguments or results. */
export function completeServerSpan(span: Span, record: RequestRecord, status: number): void {
  const { head, principal, correlation, context } = record;
  const { attributes } = span;
  if (head.address !== undefined) attributes['client.address'] = head.address;
  if (correlation.conversationId !== undefined) attributes['gen_ai.conversation.id'] = correlation.conversationId;
  if (principal.id !== '') attributes['enduser.id'] = principal.id.slice(0, MAX_USER_LENGTH);
  attributes['sluice.decision'] = record.decision;
  if (record.outcome !== undefined && record.outcome !== 'completed') attributes['sluice.outcome'] = record.outcome;
  const message = context?.message;
  if (message && message.kind !== 'response') return setMessageAttributes(span, record, message);
  attributes['http.request.method'] = head.method;
  attributes['http.response.status_code'] = status;
  attributes['url.path'] = loggablePath(head.target);
  attributes['url.scheme'] = 'http';
}

function setMessageAttributes(span: Span, record: RequestRecord, message: RequestMessage | NotificationMessage): void {
  const { attributes } = span;
  const { subject, answer } = record;
  const { namespace, session } = record.context ?? {};
  const { method, params } = message;
  attributes['mcp.method.name'] = loggableMethod(method);
  attributes['network.transport'] = 'tcp';
  attributes['network.protocol.name'] = 'http';
  if (namespace) attributes['sluice.namespace'] = namespace.name;
  const version = protocolVersion(record, message);
  if (version !== undefined) attributes['mcp.protocol.version'] = version;
  if (message.kind === 'request' && message.idText !== 'null') {
    attributes['jsonrpc.request.id'] = requestId(message.idText);
  }
  if (typeof params.uri === 'string') attributes['mcp.resource.uri'] = loggableUri(params.uri);
  if (session) attributes['mcp.session.id'] = session.id;
  if (answer?.errorCode !== undefined) attributes['rpc.response.status_code'] = String(answer.errorCode);
  if (!subject) return;
  span.name = `${method} ${subject.name}`;
  setSubjectAttributes(attributes, subject);
}

/** Sets the attributes of a tool or prompt. */
export function setSubjectAttributes(attributes: Attributes, { kind, name }: Subject): void {
  if (kind === 'prompt') {
    attributes['gen_ai.prompt.name'] = name;
    return;
  }
  attributes['gen_ai.tool.name'] = name;
  attributes['gen_ai.operation.name'] = 'execute_tool';
}

/** Returns the protocol version of a message: from its metadata, the session or a header. */
function protocolVersion(
  { context, head }: RequestRecord,
  message: RequestMessage | NotificationMessage,
): string | undefined {
  const meta = context?.era === 'modern' && message.kind === 'request' ? message.params._meta : undefined;
  const declared = isJsonObject(meta) ? meta[META_PROTOCOL_VERSION] : undefined;
  const version = declared ?? context?.session?.protocolVersion ?? head.headers[HEADER_PROTOCOL_VERSION];
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
  /** Kind of the error that a response with a status of success contains. */
  readonly errorType: string | undefined;
  /** HTTP status; 0 if the exchange ended before a response. */
  readonly statusCode: number;
  /** `performance.now()` at the end of the exchange. */
  readonly endedAt: number;
}

/**
 * Starts the span of a completion as a child of the request's span (OpenTelemetry's conventions for generative AI,
 * "Inference"). The provider `openai` is the format of the request, for any server.
 */
export function completionSpan(record: RequestRecord, parent: Span, completion: RecordedCompletion): Span {
  const { startedAt, upstream, correlation } = record;
  const { requestModel, responseModel, completionId, inputTokens, outputTokens, finishReasons } = completion;
  const { conversationId } = correlation;
  const name = requestModel === undefined ? 'chat' : `chat ${requestModel}`;
  const span = parent.child({ name, role: 'client', startedAt });
  Object.assign(span.attributes, {
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
  });
  return span;
}
