import type { TargetLogger } from '../log.ts';
import { rounded } from '../tool-calls/tool-call-record.ts';
import type { RequestObservation } from './request-observation.ts';

/** Longer ones are cut. */
const LONGEST_PATH = 1_024;

/**
 * One line per request with what was decided (level `info` of the target `service::…::access`). Never in it: queries,
 * bodies, arguments, credentials; of headers the ids that join it with other lines, and the user that a proxy names.
 */
export class AccessLog {
  readonly #log: TargetLogger;
  readonly #on: boolean;

  constructor(log: TargetLogger) {
    this.#log = log;
    this.#on = log.enabled('info');
  }

  write(observation: RequestObservation, status: number, durationMs: number, completed: boolean): void {
    if (!this.#on) return;
    const { request, context, decision, filter, subject, upstream, answer } = observation;
    const message = context?.message;
    const correlation = context?.correlation;
    this.#log.info('request', {
      method: request.method,
      path: (context?.path ?? request.target.split('?', 1)[0] ?? '').slice(0, LONGEST_PATH),
      status,
      duration_ms: rounded(durationMs),
      decision,
      filter,
      namespace: context?.namespace?.name,
      mcp_method: message && 'method' in message ? message.method.slice(0, LONGEST_PATH) : undefined,
      tool: subject?.kind === 'tool' ? subject.name : undefined,
      prompt: subject?.kind === 'prompt' ? subject.name : undefined,
      upstream,
      error_code: answer?.errorCode,
      error_type: observation.failure,
      in_batch: request.inBatch || undefined,
      client_left: completed ? undefined : true,
      client: request.client,
      user: context?.user,
      session_id: context?.session?.id,
      x_request_id: correlation?.requestId,
      conversation_id: correlation?.conversationId,
      trace_id: observation.span?.context.traceId,
    });
  }
}
