import { INVALID_PARAMS, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { truncateCharacters } from '@sluice/protocol/text';
import type { TargetLogger } from './log.ts';
import { roundMs } from './metrics/instruments.ts';
import { boundedName, loggableMethod, loggablePath } from './redaction.ts';
import type { ObservedContext, RequestRecord } from './request-record.ts';

const MAX_REASON_LENGTH = 200;
/** Limit of the reason of an evaluator, which the operator's own actions write (decisions 10.2). */
const MAX_POLICY_REASON_CHARACTERS = 1000;
const MAX_USER_LENGTH = 256;

/**
 * Access log: one line per request at level `info` of a target `service::…::access`. The line of a tool call includes the
 * members of the call's last event without its content (decisions 6), so that a call is one line at this level. Queries,
 * bodies, arguments and credentials are never logged, unless an evaluator repeats them in its reason; of the headers, only the
 * correlation ids and the user. At level
 * `debug` the line includes the metadata that evaluators have set.
 */
export class AccessLog {
  readonly #log: TargetLogger;
  readonly #enabled: boolean;
  readonly #withMetadata: boolean;
  readonly #probes: ReadonlySet<string>;

  /** `probes` are paths that are requested every few seconds; successful requests are logged at level `debug`. */
  constructor(log: TargetLogger, probes: ReadonlySet<string> = new Set()) {
    this.#log = log;
    this.#enabled = log.enabled('info');
    this.#withMetadata = log.enabled('debug');
    this.#probes = probes;
  }

  /** `completed` is false if the client disconnected before the end of the response. */
  write(record: RequestRecord, status: number, durationMs: number, completed: boolean): void {
    if (!this.#enabled) return;
    const { request, caller, context, decision, subject, answer, toolCall, policyRejection } = record;
    const message = context?.message;
    const path = loggablePath(request.target);
    const level = status < 400 && this.#probes.has(path) ? 'debug' : 'info';
    const tool = subject?.kind === 'tool' ? subject.name : undefined;
    // The name in events is another one for code execution.
    const eventName = toolCall?.identity.toolName;
    const eventTool = eventName === undefined || eventName === tool ? undefined : boundedName(eventName);
    const details = toolCall?.details;
    this.#log[level]('request', {
      method: request.method,
      path,
      status,
      duration_ms: roundMs(durationMs),
      decision,
      filter: record.filter,
      namespace: context?.namespace?.name,
      mcp_method: message && 'method' in message ? loggableMethod(message.method) : undefined,
      tool,
      prompt: subject?.kind === 'prompt' ? subject.name : undefined,
      upstream: record.upstream,
      error_code: answer?.errorCode,
      evaluator: policyRejection?.evaluator,
      reason: decision === 'refused' ? reasonOf(record) : undefined,
      error_type: record.failure,
      in_batch: request.inBatch || undefined,
      client_left: completed || record.failure !== undefined ? undefined : true,
      client: request.client,
      user: caller.user?.slice(0, MAX_USER_LENGTH),
      session_id: context?.session?.id,
      x_request_id: caller.requestId,
      conversation_id: caller.conversationId,
      trace_id: record.traceId,
      event_id: toolCall?.eventId,
      event_type: details?.type,
      event_tool: eventTool === tool ? undefined : eventTool,
      transport: toolCall?.identity.transport,
      tool_type: toolCall?.identity.toolType,
      service: toolCall?.identity.serviceId,
      service_address: toolCall?.identity.serviceAddress,
      service_request_id: toolCall?.identity.serviceRequestId,
      completion_id: toolCall?.completionId,
      is_error: details?.type === 'COMPLETED' ? details.isError : undefined,
      error_category: details?.type === 'FAILED' ? details.category : undefined,
      call_duration_ms: details && 'durationMs' in details ? roundMs(details.durationMs) : undefined,
      metadata: this.#withMetadata && context ? metadataOf(context) : undefined,
    });
  }
}

/** Metadata that has fields of its own. */
const FIELDS: ReadonlySet<string> = new Set(['mcp.method', 'service.namespace']);

function metadataOf({ metadata }: ObservedContext): Readonly<Record<string, string>> | undefined {
  const others = [...metadata].filter(([key]) => !FIELDS.has(key));
  return others.length > 0 ? Object.fromEntries(others) : undefined;
}

/** Methods whose errors about parameters contain only the name of a tool or prompt. */
const METHODS_BY_NAME: ReadonlySet<string> = new Set(['tools/call', 'prompts/get']);

/**
 * Returns the message of a rejection that contains at most the name of a tool, prompt or method, or that was created before
 * the body was parsed. Other messages may repeat parameters; those of resources contain addresses.
 */
function reasonOf({ answer, context, policyRejection }: RequestRecord): string | undefined {
  if (policyRejection) return truncateCharacters(policyRejection.reason, MAX_POLICY_REASON_CHARACTERS);
  const message = context?.message;
  const method = message && 'method' in message ? message.method : '';
  const code = answer?.errorCode;
  const namesOnly = code === METHOD_NOT_FOUND || (code === INVALID_PARAMS && METHODS_BY_NAME.has(method));
  return !context || namesOnly ? answer?.errorMessage?.slice(0, MAX_REASON_LENGTH) : undefined;
}
