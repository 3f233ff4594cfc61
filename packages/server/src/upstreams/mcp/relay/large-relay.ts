import type { JsonObject } from '@sluice/protocol/json/parse';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { ResponseBody, ResponseSink } from '../../response-sink.ts';
import { isSameId } from '../request-ids.ts';
import type { LargeMessageHandler } from '../response-handler.ts';
import type { ResponseReader } from '../response-reader.ts';
import type { AttemptedCall, RelayedRequest } from './call-spec.ts';
import type { LargeMessage } from './large-message.ts';
import { createsTask, isWaitingTask } from './response-rewrite.ts';

/** A response that may be large. */
export interface LargeRelayParts {
  readonly call: AttemptedCall;
  readonly request: RelayedRequest;
  readonly reader: Pick<ResponseReader, 'isStream' | 'status'>;
  /** Pauses the upstream until the client has read what was sent. */
  readonly block: () => void;
}

/** A result that is being sent. */
interface BegunResult {
  readonly large: LargeMessage;
  readonly sink: ResponseSink;
  readonly body: ResponseBody;
}

/** Sends the client a large result while it arrives. Created with the first part of a large message. */
export class LargeRelay implements LargeMessageHandler {
  readonly #response: LargeRelayParts;
  #hasPart = false;
  #begun: BegunResult | undefined = undefined;

  constructor(response: LargeRelayParts) {
    this.#response = response;
  }

  /** True once the result is being sent. */
  get hasBegun(): boolean {
    return this.#begun !== undefined;
  }

  onPart(large: LargeMessage, length?: number): void {
    const { call, request, block } = this.#response;
    const { sink } = call;
    if (sink) this.#begun ??= this.#begin(large, length, sink);
    this.#hasPart = true;
    if (!this.#begun) return;
    const problem = large.problem(request.maxBytes);
    if (problem) throw this.#error(problem.kind, problem.what);
    if (!sink) return large.take(this.#begun.sink.client.idText).free();
    // With a length, the last part completes the response for its client: it is sent when all of it has been checked.
    if (large.length !== length && !this.send()) block();
  }

  /**
   * Begins to send the result if it is known to be one and the sink takes parts. Between eras, from an event stream, or to a client
   * that accepts no JSON before its stream has begun, it is sent when it is complete.
   */
  #begin(large: LargeMessage, length: number | undefined, sink: ResponseSink): BegunResult | undefined {
    const { call, request, reader } = this.#response;
    if (reader.isStream || reader.status >= 300 || call.spec.rewriter || !large.isRelayable(request.id))
      return undefined;
    const sentLength = length && large.lengthWithId(sink.client.idText, length);
    const body = sink.startBody(sentLength, !this.#hasPart);
    return body && { large, sink, body };
  }

  onComplete(value: JsonObject | undefined): 'taken' | 'text' | 'bytes' {
    const { call, request } = this.#response;
    const { spec } = call;
    const isTask = value !== undefined && createsTask(spec, request.session.era, value);
    if (!this.#begun) {
      const isWaiting = value !== undefined && spec.message.method === 'tasks/get' && isWaitingTask(value);
      return isTask || isWaiting || (value && spec.rewriter?.needsText?.(value)) ? 'text' : 'bytes';
    }
    // The client of a task has the id of the upstream, which is not valid here.
    if (isTask) throw this.#error('invalid', 'answered with a task that is too large');
    if (!value || 'error' in value || !isSameId(request.id, value.id)) {
      throw this.#error('invalid', 'answered with JSON that is not the response to the call');
    }
    call.onEnd({ kind: 'relayed', value, relay: this });
    return 'taken';
  }

  /** Sends what has arrived, once all of it was checked. False if the client reads too slowly. */
  send(): boolean {
    if (!this.#begun) return true;
    const { large, sink, body } = this.#begun;
    const { parts, free } = large.take(sink.client.idText);
    return parts.length === 0 || body.write(parts, free);
  }

  #error(kind: UpstreamError['kind'], what: string): UpstreamError {
    const { call, reader } = this.#response;
    return new UpstreamError(kind, call.spec.upstream.transport.address, what, { status: reader.status });
  }
}
