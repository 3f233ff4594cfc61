import { isJsonObject } from '@sluice/json/lossless';
import type { Message } from '../../mcp/message.ts';
import { HEADER_PROTOCOL_VERSION, META_PROTOCOL_VERSION } from '../../mcp/protocol.ts';
import type { RequestContext } from '../../pipeline/context.ts';
import type { Span, SpanStart } from '../tracing/span.ts';
import type { RequestObservation } from './request-observation.ts';
import { toldPath, toldUri } from './told-address.ts';

/** Longer ones are cut: attributes are for finding, not for keeping. */
const LONGEST = 1_024;

/**
 * The span of a JSON-RPC message (OpenTelemetry's conventions for MCP, "Server"). Never what it says: no arguments, no
 * results. Undefined for answers of clients to what they were asked.
 */
export function messageSpan({ startedAt, request }: RequestObservation, message: Message): SpanStart | undefined {
  if (message.kind === 'response') return undefined;
  const { method, params } = message;
  const attributes: SpanStart['attributes'] = {
    'mcp.method.name': method.slice(0, LONGEST),
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
  };
  if (message.kind === 'request' && message.idText !== 'null') attributes['jsonrpc.request.id'] = idOf(message.idText);
  if (typeof params.uri === 'string') attributes['mcp.resource.uri'] = toldUri(params.uri);
  if (request.client !== undefined) attributes['client.address'] = request.client;
  return { name: method.slice(0, LONGEST), role: 'server', attributes, startedAt };
}

/** The span of a request that is sent on as HTTP; undefined for requests of which none is made. */
export function requestSpan({ startedAt, request, upstream }: RequestObservation): SpanStart | undefined {
  if (upstream === undefined) return undefined;
  const attributes = {
    'http.request.method': request.method,
    'url.path': toldPath(request.target),
    'url.scheme': 'http',
    ...(request.client !== undefined && { 'client.address': request.client }),
  };
  return { name: request.method, role: 'server', attributes, startedAt };
}

/** Adds what is known only when the request is over. */
export function completeSpan(span: Span, observation: RequestObservation, status: number): void {
  const { context, subject, decision } = observation;
  const { attributes } = span;
  attributes['sluice.decision'] = decision;
  if (!context) return;
  const { namespace, session, correlation, message, headers } = context;
  if (correlation.conversationId !== undefined) attributes['gen_ai.conversation.id'] = correlation.conversationId;
  if (!message) attributes['http.response.status_code'] = status;
  if (!message || message.kind === 'response') return;
  if (namespace) attributes['sluice.namespace'] = namespace.name;
  if (session) attributes['mcp.session.id'] = session.id;
  const version = versionOf(context) ?? session?.protocolVersion ?? headers[HEADER_PROTOCOL_VERSION];
  if (typeof version === 'string') attributes['mcp.protocol.version'] = version.slice(0, LONGEST);
  if (observation.answer?.errorCode !== undefined) {
    attributes['rpc.response.status_code'] = String(observation.answer.errorCode);
  }
  if (!subject) return;
  span.name = `${message.method} ${subject.name}`;
  if (subject.kind === 'prompt') attributes['gen_ai.prompt.name'] = subject.name;
  if (subject.kind !== 'tool') return;
  attributes['gen_ai.tool.name'] = subject.name;
  attributes['gen_ai.operation.name'] = 'execute_tool';
}

function versionOf({ era, message }: RequestContext): unknown {
  if (era !== 'modern' || message?.kind !== 'request') return undefined;
  const meta = message.params._meta;
  return isJsonObject(meta) ? meta[META_PROTOCOL_VERSION] : undefined;
}

/** A string id without its quotes. */
function idOf(idText: string): string {
  return (idText.startsWith('"') ? idText.slice(1, -1) : idText).slice(0, LONGEST);
}
