import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { UpstreamError } from '../../../http/client/errors.ts';
import { type OutgoingCall, TOOL_ERROR } from '../../../telemetry/request-telemetry.ts';
import {
  contentOfResult,
  isErrorResult,
  type RequestSummary,
  toolSummary,
} from '../../../telemetry/tool-calls/event.ts';
import type { ToolCallReporter } from '../../../telemetry/tool-calls/events.ts';

/** Observes one call. Of several ends the first counts. */
export interface CallObserver {
  /** The call is about to be sent. */
  start(): void;
  /** The upstream responded, with a result or an error. */
  onResponse(value: JsonObject): void;
  /** There is no usable response; `reason` is the message that the client gets. */
  onFailure(error: unknown, reason: string): void;
  onCancellation(reason: string): void;
}

/** A tool call and what its events contain of the request. */
interface ObservedToolCall {
  readonly report: ToolCallReporter;
  readonly summary: RequestSummary;
}

/** Reports one call to metrics, traces and, if it is a tool call, tool-call events (decisions 6). */
export class TelemetryObserver implements CallObserver {
  readonly #outgoing: OutgoingCall | undefined;
  readonly #tool: ObservedToolCall | undefined;

  constructor(outgoing: OutgoingCall | undefined, tool: ObservedToolCall | undefined) {
    this.#outgoing = outgoing;
    this.#tool = tool;
  }

  start(): void {
    this.#tool?.report.begin(this.#tool.summary);
  }

  onResponse({ result, error }: JsonObject): void {
    if (result === undefined) {
      const { code, message }: JsonObject = isJsonObject(error) ? error : {};
      // Upstreams may send codes of any type and length.
      this.#outgoing?.end(typeof code === 'number' && Number.isInteger(code) ? String(code) : '_OTHER');
      this.#tool?.report.failed('UNKNOWN', typeof message === 'string' ? message : 'an error without a message');
      return;
    }
    const isError = isErrorResult(result);
    this.#outgoing?.end(isError ? TOOL_ERROR : undefined);
    this.#tool?.report.completed(isError, contentOfResult(result));
  }

  onFailure(error: unknown, reason: string): void {
    this.#outgoing?.end(error instanceof UpstreamError ? error.kind : '_OTHER');
    this.#tool?.report.failed(isUnavailable(error) ? 'SERVICE_UNAVAILABLE' : 'UNKNOWN', reason);
  }

  onCancellation(reason: string): void {
    this.#outgoing?.end('cancelled');
    this.#tool?.report.failed('UNKNOWN', reason);
  }
}

/**
 * Returns the report of a tool call with a summary of its request, so that the request itself is not retained. `headers`:
 * names and values, alternating, that are copied from the client's request.
 */
export function observedToolCall(
  report: ToolCallReporter,
  args: unknown,
  headers: readonly string[],
): ObservedToolCall {
  const names = headers.length === 0 ? headers : headers.filter((_, index) => index % 2 === 0);
  return { report, summary: toolSummary(isJsonObject(args) ? args : {}, names) };
}

/** True if the upstream could not be reached or did not respond in time, or a proxy in front of it says so (decisions 6). */
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
