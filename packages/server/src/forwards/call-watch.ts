import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { contentOfResult, saysError } from '../telemetry/tool-calls/event-content.ts';
import { type RequestSummary, toolSummary } from '../telemetry/tool-calls/request-summary.ts';
import type { ToolCallReport } from '../telemetry/tool-calls/tool-call-report.ts';
import { UpstreamError } from '../transport/upstream-error.ts';

/** Is told how a call goes. Of several ends the first counts. */
export interface CallWatch {
  /** It is about to be sent. */
  begin(): void;
  /** The upstream's response to it, a result or an error. */
  answered(value: JsonObject): void;
  /** There will be no response, or none that can be used; `reason` is what the client is told of it. */
  failed(error: unknown, reason: string): void;
  /** Nobody waits for the response any more. */
  abandoned(reason: string): void;
}

/**
 * Reports one tool call that is forwarded, in the words of what relays it (decisions 6). Made with the plan of the call, and
 * keeps nothing of its request but what is told.
 */
export class ToolCallWatch implements CallWatch {
  readonly #report: ToolCallReport;
  readonly #summary: RequestSummary;

  /** `headers`: names and values, alternating, of those that the client's request brings along. */
  constructor(report: ToolCallReport, args: unknown, headers: readonly string[]) {
    this.#report = report;
    const names = headers.length === 0 ? headers : headers.filter((_, index) => index % 2 === 0);
    this.#summary = toolSummary(isJsonObject(args) ? args : {}, names);
  }

  begin(): void {
    this.#report.begin(this.#summary);
  }

  answered({ result, error }: JsonObject): void {
    if (result !== undefined) return this.#report.completed(saysError(result), contentOfResult(result));
    const message = isJsonObject(error) ? error.message : undefined;
    this.#report.failed('UNKNOWN', typeof message === 'string' ? message : 'an error without a message');
  }

  failed(error: unknown, reason: string): void {
    this.#report.failed(isUnavailable(error) ? 'SERVICE_UNAVAILABLE' : 'UNKNOWN', reason);
  }

  abandoned(reason: string): void {
    this.#report.failed('UNKNOWN', reason);
  }
}

/**
 * The watch of each call upstream of one that takes several: that input is needed ends a round and not the call, and goes
 * to `inputRequired`.
 */
export function watchOfRounds(watch: CallWatch, inputRequired: () => void): CallWatch {
  return {
    begin: () => watch.begin(),
    answered(value) {
      if (isJsonObject(value.result) && value.result.resultType === 'input_required') inputRequired();
      else watch.answered(value);
    },
    failed: (error, reason) => watch.failed(error, reason),
    abandoned: (reason) => watch.abandoned(reason),
  };
}

/** True where the upstream could not be reached or did not answer in time, or what stands before it says so (decisions 6). */
function isUnavailable(error: unknown): boolean {
  if (!(error instanceof UpstreamError)) return false;
  switch (error.kind) {
    case 'refused':
    case 'timeout':
    case 'dropped':
    case 'session-lost':
      return true;
    case 'http':
      return error.status !== undefined && error.status >= 500;
    case 'redirect':
    case 'rpc':
    case 'invalid':
    case 'too-large':
    case 'aborted':
      return false;
  }
}
