import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { type OutgoingCall, TOOL_ERROR } from '../telemetry/requests/outgoing-call.ts';
import { saysError } from '../telemetry/tool-calls/event-content.ts';
import { UpstreamError } from '../transport/upstream-error.ts';
import type { CallWatch } from './call-watch.ts';

/** Tells metrics and traces how a call upstream ends, and goes on to what tells of tool calls. */
export class ObservedWatch implements CallWatch {
  readonly #outgoing: OutgoingCall;
  readonly #watch: CallWatch | undefined;

  constructor(outgoing: OutgoingCall, watch: CallWatch | undefined) {
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
  return saysError(result) ? TOOL_ERROR : undefined;
}
