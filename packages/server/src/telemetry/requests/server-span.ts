import type { Attributes } from '@opentelemetry/api';
import { isJsonObject } from '@sluice/protocol/json/parse';
import {
  HEADER_PROTOCOL_VERSION,
  LEGACY_VERSIONS,
  META_PROTOCOL_VERSION,
  MODERN_VERSIONS,
} from '@sluice/protocol/mcp/constants';
import type { NotificationMessage, RequestMessage } from '@sluice/protocol/mcp/message';
import type { RequestContext } from '../../pipeline/context.ts';
import { MCP_METHODS } from '../metrics/mcp-methods.ts';
import { correlationOf } from '../tool-calls/correlation.ts';
import type { CommonAttributes } from '../tracing/common-attributes.ts';
import type { Span, SpanStart } from '../tracing/span.ts';
import type { RequestObservation, Subject } from './request-observation.ts';
import { toldPath, toldUri } from './told-address.ts';
import { toldMethod } from './told-names.ts';

/** Longer ones are cut: attributes are for finding, not for keeping. */
const LONGEST = 1_024;
const LONGEST_VERSION = 32;
const VERSIONS: ReadonlySet<string> = new Set([...LEGACY_VERSIONS, ...MODERN_VERSIONS]);

/**
 * What begins the span of a request: of a JSON-RPC message (OpenTelemetry's conventions for MCP, "Server"), or of one that
 * is sent on as HTTP. Undefined for what has none.
 */
export function serverSpan({ startedAt, request, context, upstream }: RequestObservation): SpanStart | undefined {
  const message = context?.message;
  if (message?.kind === 'response') return undefined;
  if (message) return { name: toldMethod(message.method), role: 'server', startedAt };
  return upstream === undefined ? undefined : { name: request.method, role: 'server', startedAt };
}

/**
 * Says in the span of a request what is known when it is over. Never what was asked or answered: no arguments, no results.
 */
export function completeSpan(
  span: Span,
  observation: RequestObservation,
  status: number,
  attributes: CommonAttributes,
): void {
  const { request, context } = observation;
  const { own } = span;
  if (request.client !== undefined) own['client.address'] = request.client;
  const { conversationId } = correlationOf(request.headers);
  if (conversationId !== undefined) own['gen_ai.conversation.id'] = conversationId;
  const message = context?.message;
  if (context && message && message.kind !== 'response')
    completeMessage(span, observation, context, message, attributes);
  else completeExchange(span, observation, status);
}

function completeMessage(
  span: Span,
  { subject, decision, answer }: RequestObservation,
  context: RequestContext,
  message: RequestMessage | NotificationMessage,
  attributes: CommonAttributes,
): void {
  const { own } = span;
  const { namespace, session } = context;
  const { method, params } = message;
  if (message.kind === 'request' && message.idText !== 'null') own['jsonrpc.request.id'] = idOf(message.idText);
  if (typeof params.uri === 'string') own['mcp.resource.uri'] = toldUri(params.uri);
  if (session) own['mcp.session.id'] = session.id;
  if (answer?.errorCode !== undefined) own['rpc.response.status_code'] = String(answer.errorCode);
  if (subject) span.name = `${method} ${subject.name}`;
  const version = versionOf(context);
  const place = namespace?.name ?? '';
  // No two may have one key: of what clients make up none is remembered.
  const known = MCP_METHODS.has(method) && (version === undefined || VERSIONS.has(version));
  const key = known ? `${decision} ${version} ${place} ${method} ${subject?.kind} ${subject?.name}` : undefined;
  span.common = attributes.get(key, () => ({
    'mcp.method.name': toldMethod(method),
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'sluice.decision': decision,
    ...(namespace && { 'sluice.namespace': namespace.name }),
    ...(version !== undefined && { 'mcp.protocol.version': version }),
    ...(subject && subjectAttributes(subject)),
  }));
}

function completeExchange(span: Span, { request, decision }: RequestObservation, status: number): void {
  span.own['sluice.decision'] = decision;
  span.own['http.request.method'] = request.method;
  span.own['http.response.status_code'] = status;
  span.own['url.path'] = toldPath(request.target);
  span.own['url.scheme'] = 'http';
}

/** What a tool or a prompt is called in spans. */
export function subjectAttributes({ kind, name }: Subject): Attributes {
  if (kind === 'prompt') return { 'gen_ai.prompt.name': name };
  return { 'gen_ai.tool.name': name, 'gen_ai.operation.name': 'execute_tool' };
}

/** The version that the message speaks, as far as anybody says it. */
function versionOf({ era, message, session, headers }: RequestContext): string | undefined {
  const meta = era === 'modern' && message?.kind === 'request' ? message.params._meta : undefined;
  const said = isJsonObject(meta) ? meta[META_PROTOCOL_VERSION] : undefined;
  const version = said ?? session?.protocolVersion ?? headers[HEADER_PROTOCOL_VERSION];
  return typeof version === 'string' ? version.slice(0, LONGEST_VERSION) : undefined;
}

/** A string id without its quotes. */
function idOf(idText: string): string {
  return (idText.startsWith('"') ? idText.slice(1, -1) : idText).slice(0, LONGEST);
}
