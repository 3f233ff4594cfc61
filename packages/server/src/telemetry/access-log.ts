import { INVALID_PARAMS, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import type { RequestContext } from '../http/context.ts';
import { correlationOf, loggablePath, toldMethod, userOf } from './correlation.ts';
import type { TargetLogger } from './log.ts';
import type { RequestObservation } from './request-telemetry.ts';
import { rounded } from './tool-calls/events.ts';

/** Longer ones are cut. */

const LONGEST_REASON = 200;
const LONGEST_NAME = 256;

/**
 * One line per request with what was decided (level `info` of the target `service::…::access`). Never in it: queries,
 * bodies, arguments, credentials; of headers the ids that join it with other lines, and the user that a proxy names. At
 * `debug` it has what evaluators have set of the request too, as an operator's actions word it.
 */
export class AccessLog {
  readonly #log: TargetLogger;
  readonly #on: boolean;
  readonly #withMetadata: boolean;
  readonly #probes: ReadonlySet<string>;

  /** `probes` are paths that are asked for every few seconds: when that goes well, it is told at `debug`. */
  constructor(log: TargetLogger, probes: ReadonlySet<string> = new Set()) {
    this.#log = log;
    this.#on = log.enabled('info');
    this.#withMetadata = log.enabled('debug');
    this.#probes = probes;
  }

  write(observation: RequestObservation, status: number, durationMs: number, completed: boolean): void {
    if (!this.#on) return;
    const { request, context, decision, filter, subject, upstream, answer } = observation;
    const message = context?.message;
    const correlation = correlationOf(request.headers);
    const path = loggablePath(request.target);
    const level = status < 400 && this.#probes.has(path) ? 'debug' : 'info';
    this.#log[level]('request', {
      method: request.method,
      path,
      status,
      duration_ms: rounded(durationMs),
      decision,
      filter,
      namespace: context?.namespace?.name,
      mcp_method: message && 'method' in message ? toldMethod(message.method) : undefined,
      tool: subject?.kind === 'tool' ? subject.name : undefined,
      prompt: subject?.kind === 'prompt' ? subject.name : undefined,
      upstream,
      error_code: answer?.errorCode,
      reason: decision === 'refused' ? reasonOf(observation) : undefined,
      error_type: observation.failure,
      in_batch: request.inBatch || undefined,
      client_left: completed || observation.failure !== undefined ? undefined : true,
      client: request.client,
      user: userOf(request.headers)?.slice(0, LONGEST_NAME),
      session_id: context?.session?.id,
      x_request_id: correlation.requestId,
      conversation_id: correlation.conversationId,
      trace_id: observation.span?.context.traceId,
      metadata: this.#withMetadata && context ? metadataOf(context) : undefined,
    });
  }
}

/** Metadata that the line tells anyway. */
const TOLD_ANYWAY: ReadonlySet<string> = new Set(['mcp.method', 'service.namespace']);

function metadataOf({ metadata }: RequestContext): Readonly<Record<string, string>> | undefined {
  const told = [...metadata].filter(([key]) => !TOLD_ANYWAY.has(key));
  return told.length > 0 ? Object.fromEntries(told) : undefined;
}

/** Methods whose parameters are told of by name alone when they are wrong. */
const NAMING: ReadonlySet<string> = new Set(['tools/call', 'prompts/get']);

/**
 * Why a request was refused, as its client was told: where that names a tool, a prompt or a method, or was said before
 * the request was looked into. Other messages may repeat what stands in it, and those of resources name addresses.
 */
function reasonOf({ answer, context }: RequestObservation): string | undefined {
  const message = context?.message;
  const method = message && 'method' in message ? message.method : '';
  const code = answer?.errorCode;
  const named = code === METHOD_NOT_FOUND || (code === INVALID_PARAMS && NAMING.has(method));
  return !context || named ? answer?.errorMessage?.slice(0, LONGEST_REASON) : undefined;
}
