import type { Attributes } from '@opentelemetry/api';
import { isJsonObject } from '@sluice/protocol/json/parse';
import {
  HEADER_PROTOCOL_VERSION,
  LEGACY_VERSIONS,
  META_PROTOCOL_VERSION,
  MODERN_VERSIONS,
} from '@sluice/protocol/mcp/constants';
import type { NotificationMessage, RequestMessage } from '@sluice/protocol/mcp/message';
import type { RequestContext } from '../http/context.ts';
import type { RecordedCompletion } from '../inference/recorder.ts';
import { correlationOf, loggablePath, toldMethod, toldUri } from './correlation.ts';
import { serverAddress } from './metrics/instruments.ts';
import { MCP_METHODS } from './metrics/request-metrics.ts';
import type { RequestObservation, Subject } from './request-telemetry.ts';
import type { Span, SpanStart } from './tracing/tracing.ts';

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
  span.own['url.path'] = loggablePath(request.target);
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

/**
 * The span of a completion, a child of its request's (OpenTelemetry's conventions for generative AI, "Inference"). Never what was asked or answered.
 * `openai` is what they call this form of request, whoever serves it.
 */
export function completionSpan(observation: RequestObservation, request: Span, completion: RecordedCompletion): Span {
  const { startedAt, upstream } = observation;
  const { requestModel, responseModel, completionId, inputTokens, outputTokens, finishReasons } = completion;
  const { conversationId } = correlationOf(observation.request.headers);
  const name = requestModel === undefined ? 'chat' : `chat ${requestModel}`;
  const span = request.child({ name, role: 'client', startedAt });
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

/** Beyond it, attributes are made for each span anew: what others send does not make memory grow. */
const MOST = 2_000;

/** Attributes that many spans have in common: made once, and written once by who exports them. */
export class CommonAttributes {
  readonly #known = new Map<string, Attributes>();

  /** Those of this key, which says all that they are made of; with none they are made for this span alone. */
  get(key: string | undefined, make: () => Attributes): Attributes {
    if (key === undefined) return make();
    const known = this.#known.get(key);
    if (known) return known;
    const made = make();
    if (this.#known.size < MOST) this.#known.set(key, made);
    return made;
  }
}
