import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { UpstreamError } from '../../../http/client/errors.ts';
import { type OutgoingCall, TOOL_ERROR } from '../../../telemetry/request-telemetry.ts';
import {
  contentOfResult,
  isErrorResult,
  type RequestSummary,
  type ToolCallReporter,
  toolSummary,
} from '../../../telemetry/tool-calls/report.ts';

/** Is told how a call goes. Of several ends the first counts. */
export interface CallObserver {
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
export class ToolCallWatch implements CallObserver {
  readonly #report: ToolCallReporter;
  readonly #summary: RequestSummary;

  /** `headers`: names and values, alternating, of those that the client's request brings along. */
  constructor(report: ToolCallReporter, args: unknown, headers: readonly string[]) {
    this.#report = report;
    const names = headers.length === 0 ? headers : headers.filter((_, index) => index % 2 === 0);
    this.#summary = toolSummary(isJsonObject(args) ? args : {}, names);
  }

  begin(): void {
    this.#report.begin(this.#summary);
  }

  answered({ result, error }: JsonObject): void {
    if (result !== undefined) return this.#report.completed(isErrorResult(result), contentOfResult(result));
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
export function watchOfRounds(watch: CallObserver, inputRequired: () => void): CallObserver {
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

/** Tells metrics and traces how a call upstream ends, and goes on to what tells of tool calls. */
export class TelemetryObserver implements CallObserver {
  readonly #outgoing: OutgoingCall;
  readonly #watch: CallObserver | undefined;

  constructor(outgoing: OutgoingCall, watch: CallObserver | undefined) {
    this.#outgoing = outgoing;
    this.#watch = watch;
  }

  begin(): void {
    this.#watch?.begin();
  }

  answered(value: JsonObject): void {
    this.#outgoing.end(errorIn(value));
    this.#watch?.answered(value);
  }

  failed(error: unknown, reason: string): void {
    this.#outgoing.end(error instanceof UpstreamError ? error.kind : '_OTHER');
    this.#watch?.failed(error, reason);
  }

  abandoned(reason: string): void {
    this.#outgoing.end('cancelled');
    this.#watch?.abandoned(reason);
  }
}

function errorIn({ result, error }: JsonObject): string | undefined {
  if (error !== undefined) {
    const code = isJsonObject(error) ? error.code : undefined;
    // What is no code may be anything, of any length.
    return typeof code === 'number' && Number.isInteger(code) ? String(code) : '_OTHER';
  }
  return isErrorResult(result) ? TOOL_ERROR : undefined;
}
