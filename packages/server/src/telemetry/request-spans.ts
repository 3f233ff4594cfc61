import type { Attributes } from '@opentelemetry/api';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { HEADER_PROTOCOL_VERSION, META_PROTOCOL_VERSION } from '@sluice/protocol/mcp/constants';
import type { NotificationMessage, RequestMessage } from '@sluice/protocol/mcp/message';
import type { Exchange } from '../exchange/exchange.ts';
import type { ExchangeFacts } from '../exchange/facts.ts';
import { loggableMethod, loggablePath, loggableUri, type Subject } from './redaction.ts';
import type { Span, SpanStart } from './tracing/span.ts';
import { traceContextOf } from './tracing/trace-context.ts';
import type { Tracing } from './tracing/tracing.ts';

const MAX_ID_LENGTH = 1_024;
const MAX_VERSION_LENGTH = 32;
const MAX_USER_LENGTH = 256;

/**
 * The span of a request, started when it is first needed: by then the message is known. A request without one is a preflight
 * request, a stream that is opened, or a body that cannot be parsed.
 */
export class RequestSpan {
  readonly #tracing: Pick<Tracing, 'begin'>;
  /** Undefined once the request has ended: a call that continues must not retain it. */
  #exchange: Exchange | undefined;
  #span: Span | undefined = undefined;

  constructor(exchange: Exchange, tracing: Pick<Tracing, 'begin'>) {
    this.#exchange = exchange;
    this.#tracing = tracing;
  }

  /** The span; undefined if the request has none. */
  get started(): Span | undefined {
    if (this.#span || !this.#exchange) return this.#span;
    const { head, message } = this.#exchange;
    const start = serverSpan(this.#exchange);
    if (!start) return undefined;
    const meta = message && 'params' in message ? message.params._meta : undefined;
    this.#span = this.#tracing.begin(start, traceContextOf(head.headers, isJsonObject(meta) ? meta : undefined));
    return this.#span;
  }

  end(exchange: Exchange, status: number, errorType: string | undefined): void {
    const span = this.started;
    this.#exchange = undefined;
    if (!span) return;
    if (span.recorded) completeServerSpan(span, exchange, status);
    if (errorType !== undefined) span.failed(errorType);
    span.end();
  }
}

/** Returns the span of a request; undefined for one without, and if no traces are exported. */
export function spanOf(facts: Pick<ExchangeFacts, 'span'> | undefined): Span | undefined {
  const span = facts?.span;
  return span instanceof RequestSpan ? span.started : undefined;
}

/**
 * Returns the start of the span of a request: of a JSON-RPC message (OpenTelemetry's conventions for MCP, "Server"), or of a
 * proxied HTTP request. Undefined for requests without a span.
 */
function serverSpan({ head, message, facts }: Exchange): SpanStart | undefined {
  const { startedAt } = head;
  if (message?.kind === 'response') return undefined;
  if (message) return { name: loggableMethod(message.method), role: 'server', startedAt };
  return facts.upstream === undefined ? undefined : { name: head.method, role: 'server', startedAt };
}

/** How a request was handled: rejected, sent to an upstream, or served by the service itself. */
export type Handled = 'rejected' | 'proxied' | 'local';

/** Returns how a request was handled. */
export function handledOf({ upstream, resumesCall, rejected }: ExchangeFacts): Handled {
  if (upstream !== undefined || resumesCall) return 'proxied';
  return rejected ? 'rejected' : 'local';
}

/** Sets the name and attributes of the span of a request at its end; never arguments or results. */
function completeServerSpan(span: Span, exchange: Exchange, status: number): void {
  const { head, principal, correlation, facts, message } = exchange;
  const { attributes } = span;
  if (head.address !== undefined) attributes['client.address'] = head.address;
  if (correlation.conversationId !== undefined) attributes['gen_ai.conversation.id'] = correlation.conversationId;
  if (principal.id !== '') attributes['enduser.id'] = principal.id.slice(0, MAX_USER_LENGTH);
  attributes['sluice.handled'] = handledOf(facts);
  if (facts.outcome !== undefined && facts.outcome !== 'completed') attributes['sluice.outcome'] = facts.outcome;
  if (message && message.kind !== 'response') return setMessageAttributes(span, exchange, message);
  attributes['http.request.method'] = head.method;
  attributes['http.response.status_code'] = status;
  attributes['url.path'] = loggablePath(head.target);
  attributes['url.scheme'] = 'http';
}

function setMessageAttributes(span: Span, exchange: Exchange, message: RequestMessage | NotificationMessage): void {
  const { attributes } = span;
  const { namespace, session } = exchange;
  const { subject, error } = exchange.facts;
  const { method, params } = message;
  attributes['mcp.method.name'] = loggableMethod(method);
  attributes['network.transport'] = 'tcp';
  attributes['network.protocol.name'] = 'http';
  if (namespace) attributes['sluice.namespace'] = namespace.name;
  const version = protocolVersion(exchange, message);
  if (version !== undefined) attributes['mcp.protocol.version'] = version;
  if (message.kind === 'request' && message.idText !== 'null') {
    attributes['jsonrpc.request.id'] = requestId(message.idText);
  }
  if (typeof params.uri === 'string') attributes['mcp.resource.uri'] = loggableUri(params.uri);
  if (session) attributes['mcp.session.id'] = session.id;
  if (error) attributes['rpc.response.status_code'] = String(error.code);
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
  { era, session, head }: Exchange,
  message: RequestMessage | NotificationMessage,
): string | undefined {
  const meta = era === 'modern' && message.kind === 'request' ? message.params._meta : undefined;
  const declared = isJsonObject(meta) ? meta[META_PROTOCOL_VERSION] : undefined;
  const version = declared ?? session?.protocolVersion ?? head.headers[HEADER_PROTOCOL_VERSION];
  return typeof version === 'string' ? version.slice(0, MAX_VERSION_LENGTH) : undefined;
}

/** Returns the id of a request from its JSON text; a string without its quotes. */
function requestId(idText: string): string {
  return (idText.startsWith('"') ? idText.slice(1, -1) : idText).slice(0, MAX_ID_LENGTH);
}
