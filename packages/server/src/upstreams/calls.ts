import type { Permit } from '../access/access.ts';
import { type Entry, FORWARD_HEADERS_LABEL } from '../registry/entries.ts';
import { type CallHandler, handleCalls, type StageDeps } from './call-stages.ts';
import { type ClientFacts, type ClientRequest, clientFacts } from './client-facts.ts';
import type { DeferredOutcome } from './deferred-outcome.ts';
import type { UpstreamHeaders } from './upstream-headers.ts';

/** Sends the requests of clients, each with its permit. */
export class Calls {
  readonly headers: UpstreamHeaders;
  readonly #parts: StageDeps;
  readonly #handle: CallHandler;

  constructor(headers: UpstreamHeaders, parts: StageDeps) {
    this.headers = headers;
    this.#parts = parts;
    this.#handle = handleCalls(parts);
  }

  /** Returns the outcome that starts the call. */
  send(request: ClientRequest, permit: Permit): DeferredOutcome {
    this.clientOf(request, permit.target.entry);
    return {
      kind: 'deferred',
      start: (sink) => this.#handle(permit, this.#parts.connectionOf(permit.target), sink),
    };
  }

  /** Returns the facts of the client of a request about this entry, and sets them. */
  clientOf(request: ClientRequest, entry?: Entry): ClientFacts {
    const client = clientFacts(request, this.headers(request.headers, entry?.labels[FORWARD_HEADERS_LABEL]));
    request.client = client;
    return client;
  }
}
