import { INVALID_PARAMS, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { truncateCharacters } from '@sluice/protocol/text';
import type { Exchange } from '../exchange/exchange.ts';
import type { ResponseEnd } from '../exchange/facts.ts';
import { CallObserver } from './call-observer.ts';
import type { LineLogger } from './log.ts';
import { roundMs } from './metrics/instruments.ts';
import { CLIENT_CLOSED_REQUEST } from './metrics/request-metrics.ts';
import { boundedName, loggableMethod, loggablePath } from './redaction.ts';
import { decisionOf, spanOf } from './request-spans.ts';
import { outcomeOf } from './tool-calls/event.ts';

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
    const { subject, error, rejection, outcome } = facts;
    const decision = decisionOf(facts);
    const toolCall = CallObserver.lastEventOf(facts);
    const path = loggablePath(head.target);
    const level = status < 400 && this.#probes.has(path) ? 'debug' : 'info';
    const tool = subject?.kind === 'tool' ? subject.name : undefined;
    // The name in events is another one for code execution.
    const eventTool = toolCall && boundedName(toolCall.identity.toolName);
    const service = toolCall?.identity.service;
    const details = toolCall?.details;
    const ended = details && details.type !== 'STARTED' ? outcomeOf(details) : undefined;
    const metadata = this.#withMetadata ? metadataOf(exchange) : undefined;
    const durationOfCall = details && 'durationMs' in details ? roundMs(details.durationMs) : undefined;
    const mcpMethod = message && 'method' in message ? loggableMethod(message.method) : undefined;
    this.#log.write(level, (line) => {
      line.text('method', head.method);
      line.text('path', path);
      line.value('status', status);
      line.value('duration_ms', roundMs(durationMs));
      line.plain('decision', decision);
      line.plain('filter', facts.filter);
      line.plain('namespace', exchange.namespace?.name);
      line.text('mcp_method', mcpMethod);
      line.text('tool', tool);
      line.text('prompt', subject?.kind === 'prompt' ? subject.name : undefined);
      line.text('upstream', facts.upstream);
      line.value('error_code', error?.code);
      line.text('evaluator', rejection?.evaluator);
      line.text('reason', decision === 'refused' ? reasonOf(exchange) : undefined);
      line.text('error_type', facts.failure);
      line.value('in_batch', head.inBatch || undefined);
      line.value('client_left', isComplete || facts.failure !== undefined ? undefined : true);
      line.text('client', head.address);
      line.text('user', principal.id.slice(0, MAX_USER_LENGTH) || undefined);
      line.plain('session_id', exchange.session?.id);
      line.text('x_request_id', correlation.requestId);
      line.text('conversation_id', correlation.conversationId);
      line.plain('trace_id', spanOf(facts)?.context.traceId);
      line.plain('event_id', toolCall?.eventId);
      line.plain('event_type', details?.type);
      line.text('event_tool', eventTool === tool ? undefined : eventTool);
      line.plain('transport', toolCall?.identity.transport);
      line.text('tool_type', toolCall?.identity.toolType);
      line.text('service', service?.id);
      line.text('service_address', service && (service.address ?? ''));
      line.text('service_request_id', service?.requestId);
      line.text('completion_id', toolCall?.completionId);
      line.plain('outcome', ended ?? (mcpMethod !== undefined && outcome !== 'completed' ? outcome : undefined));
      line.value('is_error', details?.type === 'COMPLETED' ? details.isError : undefined);
      line.plain('error_category', details?.type === 'FAILED' ? details.category : undefined);
      line.value('call_duration_ms', durationOfCall);
      if (metadata !== undefined) line.json('metadata', JSON.stringify(metadata));
    });
  }
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
