import { INVALID_PARAMS, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { escapeInvisible, truncateCharacters } from '@sluice/protocol/text';
import type { Exchange } from '../exchange/exchange.ts';
import type { ResponseEnd } from '../exchange/facts.ts';
import { CallObserver } from './call-observer.ts';
import { jsonString, LineField, type LineLogger, msText } from './log.ts';
import { CLIENT_CLOSED_REQUEST } from './metrics/request-metrics.ts';
import { boundedName, loggableMethod, loggablePath, type Subject } from './redaction.ts';
import { handledOf, spanOf } from './request-spans.ts';
import { outcomeOf, type ToolCallRecord } from './tool-calls/event.ts';

const MAX_REASON_LENGTH = 200;
/** Limit of the reason of an evaluator, which the operator's own actions write. */
const MAX_POLICY_REASON_CHARACTERS = 1000;
const MAX_USER_LENGTH = 256;

/**
 * Access log: one line per request at level `info` of a target `service::…::access`. The line of a tool call includes the members
 * of the call's last event without its content, so that a call is one line at this level. Queries, bodies, arguments and
 * credentials are never logged, unless an evaluator repeats them in its reason; of the headers, only the correlation ids and the
 * user. At level `debug` the line includes the metadata that evaluators have set.
 */
export class AccessLog {
  readonly #log: LineLogger;
  readonly #enabled: boolean;
  readonly #withMetadata: boolean;
  readonly #probes: ReadonlySet<string>;

  /** `probes` are paths that are requested every few seconds; successful requests are logged at level `debug`. */
  constructor(log: LineLogger, probes: ReadonlySet<string> = new Set()) {
    this.#log = log;
    this.#enabled = log.enabled('info');
    this.#withMetadata = log.enabled('debug');
    this.#probes = probes;
  }

  write(exchange: Exchange, { status = CLIENT_CLOSED_REQUEST, isComplete }: ResponseEnd, durationMs: number): void {
    if (!this.#enabled) return;
    const { head, principal, correlation, message, facts } = exchange;
    const { subject, error, rejection, filter, upstream, failure } = facts;
    const handled = handledOf(facts);
    const path = loggablePath(head.target);
    const level = this.#probes.size > 0 && status < 400 && this.#probes.has(path) ? 'debug' : 'info';
    const metadata = this.#withMetadata ? metadataOf(exchange) : undefined;
    const mcpMethod = message && 'method' in message ? loggableMethod(message.method) : undefined;
    let line = METHOD.text(head.method);
    line += PATH.text(path);
    line += `,"status":${status},"duration_ms":${msText(durationMs)}`;
    line += HANDLED.text(handled);
    line += FILTER.text(filter);
    line += NAMESPACE.text(exchange.namespace?.name);
    line += MCP_METHOD.text(mcpMethod);
    if (subject) line += (subject.kind === 'tool' ? TOOL : PROMPT).text(subject.name);
    line += UPSTREAM.text(upstream);
    if (error) line += `,"error_code":${error.code}`;
    line += idField('evaluator', rejection?.evaluator);
    if (handled === 'rejected') line += idField('reason', reasonOf(exchange));
    line += ERROR_TYPE.text(failure);
    if (head.inBatch) line += ',"in_batch":true';
    if (!isComplete && failure === undefined) line += ',"client_disconnected":true';
    line += CLIENT.text(head.address);
    line += USER.text(principal.id.slice(0, MAX_USER_LENGTH) || undefined);
    if (exchange.session) line += `,"session_id":"${exchange.session.id}"`;
    line += idField('x_request_id', correlation.requestId);
    line += idField('conversation_id', correlation.conversationId);
    if (facts.span) line += idField('trace_id', spanOf(facts)?.context.traceId);
    const toolCall = CallObserver.lastEventOf(facts);
    if (toolCall) line += toolCallFields(toolCall, subject);
    const hasEnded = toolCall !== undefined && toolCall.details.type !== 'STARTED';
    if (!hasEnded && mcpMethod !== undefined && facts.outcome !== 'completed') line += OUTCOME.text(facts.outcome);
    if (metadata !== undefined) line += `,"metadata":${escapeInvisible(JSON.stringify(metadata))}`;
    this.#log.write(level, line);
  }
}

/** The fields of the last event of a tool call. */
function toolCallFields({ eventId, identity, details, completionId }: ToolCallRecord, subject?: Subject): string {
  const { transport, toolType, toolName, service } = identity;
  let fields = `,"event_id":"${eventId}"`;
  fields += EVENT_TYPE.text(details.type);
  // The name in events is another one for code execution.
  const eventTool = boundedName(toolName);
  if (subject?.kind !== 'tool' || eventTool !== subject.name) fields += EVENT_TOOL.text(eventTool);
  fields += TRANSPORT.text(transport);
  fields += TOOL_TYPE.text(toolType);
  fields += SERVICE.text(service.id);
  fields += SERVICE_ADDRESS.text(service.address ?? '');
  fields += idField('service_request_id', service.requestId);
  fields += idField('completion_id', completionId);
  if (details.type === 'STARTED') return fields;
  fields += OUTCOME.text(outcomeOf(details));
  if (details.type === 'COMPLETED') fields += `,"is_error":${details.isError}`;
  else fields += `,"error_category":"${details.category}"`;
  return `${fields},"call_duration_ms":${msText(details.durationMs)}`;
}

const METHOD = new LineField('method');
const PATH = new LineField('path');
const HANDLED = new LineField('handled');
const FILTER = new LineField('filter');
const NAMESPACE = new LineField('namespace');
const MCP_METHOD = new LineField('mcp_method');
const TOOL = new LineField('tool');
const PROMPT = new LineField('prompt');
const UPSTREAM = new LineField('upstream');
const ERROR_TYPE = new LineField('error_type');
const CLIENT = new LineField('client');
const USER = new LineField('user');
const EVENT_TYPE = new LineField('event_type');
const EVENT_TOOL = new LineField('event_tool');
const TRANSPORT = new LineField('transport');
const TOOL_TYPE = new LineField('tool_type');
const SERVICE = new LineField('service');
const SERVICE_ADDRESS = new LineField('service_address');
const OUTCOME = new LineField('outcome');

/** A field whose values are not repeated. */
function idField(name: string, value: string | undefined): string {
  return value === undefined ? '' : `,"${name}":${jsonString(value)}`;
}

/** Metadata that has fields of its own. */
const FIELDS: ReadonlySet<string> = new Set(['mcp.method', 'service.namespace']);

function metadataOf({ metadata }: Exchange): Readonly<Record<string, string>> | undefined {
  const others = [...metadata].filter(([key]) => !FIELDS.has(key));
  return others.length > 0 ? Object.fromEntries(others) : undefined;
}

/** Methods whose errors about parameters contain only the name of a tool or prompt. */
const METHODS_BY_NAME: ReadonlySet<string> = new Set(['tools/call', 'prompts/get']);

/**
 * Returns the message of a rejection that contains at most the name of a tool, prompt or method, or that no filter created: such
 * a request was rejected unread. Other messages may repeat parameters; those of resources contain addresses.
 */
function reasonOf({ message, facts }: Exchange): string | undefined {
  const { error, rejection, filter } = facts;
  if (rejection) return truncateCharacters(rejection.reason, MAX_POLICY_REASON_CHARACTERS);
  const method = message && 'method' in message ? message.method : '';
  const namesOnly = error?.code === METHOD_NOT_FOUND || (error?.code === INVALID_PARAMS && METHODS_BY_NAME.has(method));
  return filter === undefined || namesOnly ? error?.message?.slice(0, MAX_REASON_LENGTH) : undefined;
}
