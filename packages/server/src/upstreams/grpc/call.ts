import { getSystemErrorMap } from 'node:util';
import { status } from '@grpc/grpc-js';
import { serviceAddress, type ToolCallErrorCategory } from '@sluice/contract';
import { readsJson, readsStreams } from '@sluice/protocol/mcp/era';
import type { RpcError } from '../../http/context.ts';
import type { ResponseWriter } from '../../mcp/response.ts';
import type { ServiceEntry } from '../../registry/entries.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { type CallResponse, makeResumable } from '../downstream.ts';
import { CLIENT_CANCELLED, CLIENT_LEFT, type InFlightCall, type InFlightCalls } from '../mcp/relay/in-flight.ts';
import type { Caller } from '../mcp/relay/relay.ts';
import { withTimeout } from '../mcp/with-timeout.ts';
import { detailsOf, isStatusError, statusName } from './unary.ts';

/** A call that capability services cannot, or could not, carry out. The message is answered. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
  readonly category: ToolCallErrorCategory;

  constructor(category: ToolCallErrorCategory, message: string, options?: ErrorOptions) {
    super(message, options);
    this.category = category;
  }
}

/** What a service is called in messages. */
export function named(service: ServiceEntry): string {
  return `service ${service.name} at ${serviceAddress(service)}`;
}

/** What a service is said to be where the status alone says little (decisions 4.10). */
const FAULTS: ReadonlyMap<status, string> = new Map([
  [status.UNAVAILABLE, 'is not available'],
  [status.FAILED_PRECONDITION, 'cannot do this now'],
  [status.DEADLINE_EXCEEDED, 'did not answer in time'],
]);

/**
 * A failed call as it is answered and counted: names service and address where it is the service that is at fault.
 * `service` is undefined where none is registered.
 */
export function toServiceError(error: unknown, service: ServiceEntry | undefined): ServiceError {
  if (error instanceof ServiceError) return error;
  if (service && isUnreadable(error)) {
    return new ServiceError('SERVICE_UNAVAILABLE', `${named(service)} sent a reply that cannot be read`, {
      cause: error,
    });
  }
  if (!service || !isStatusError(error)) {
    return new ServiceError('UNKNOWN', 'internal error', { cause: error });
  }
  const fault = FAULTS.get(error.code);
  const details = detailsOf(error);
  const message =
    fault === undefined ? details || `status ${statusName(error.code)}` : `${named(service)} ${fault}: ${details}`;
  return new ServiceError('SERVICE_UNAVAILABLE', message, { cause: error });
}

/** True for what the library makes of a reply that it cannot decompress: a status without code and description. */
function isUnreadable(error: unknown): boolean {
  return error instanceof Error && 'metadata' in error && 'code' in error && error.code === undefined;
}

/**
 * Logs what a call to a capability service failed of. Of a status its name, and what the system said of the connection,
 * but not the service's own words: they may repeat an argument.
 */
export function logFailure(
  log: TargetLogger,
  { name, service, requestId }: Pick<GrpcOperation, 'name' | 'service' | 'requestId'>,
  error: unknown,
): void {
  // Its category and message are the answer's, and the event's.
  if (error instanceof ServiceError) return;
  const called = {
    called: name,
    service: service?.name,
    service_address: service && serviceAddress(service),
    service_request_id: requestId,
  };
  if (!isStatusError(error)) return log.error('call failed', { ...called, error });
  if (!log.enabled('debug')) return;
  log.debug('call failed', { ...called, status: statusName(error.code), code: systemCodeIn(error.details) });
}

/** What a system calls the error that a text tells of: `ECONNREFUSED`. */
function systemCodeIn(details: string): string | undefined {
  const known = new Set(['ENOTFOUND', ...[...getSystemErrorMap().values()].map(([code]) => code)]);
  return details.match(/\bE[A-Z_0-9]+\b/g)?.find((code) => known.has(code));
}

/** What a call to a capability service came to: a JSON-RPC result, as JSON text, or an error. */
export type BridgedAnswer =
  | { readonly kind: 'result'; readonly json: string }
  | { readonly kind: 'error'; readonly error: RpcError };

/** The client's side of such a call. */
export type BridgedClient = CallResponse & Pick<ResponseWriter, 'callResult'>;

/** What {@link GrpcOperation} is given to carry a call out with. */
export interface OperationContext {
  readonly client: BridgedClient;
  /** The client has left, which need not end the call. */
  readonly left: AbortSignal;
  /** Nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

/** What is done for a call, and whose it is. */
export interface GrpcOperation {
  /** The tool or resource that is called. */
  readonly name: string;
  /** Undefined where none is registered. */
  readonly service: ServiceEntry | undefined;
  /** Goes to the service as `x-service-request-id`. */
  readonly requestId: string;
  /** Carries the call out; rejects with what it failed of. */
  carryOut(sides: OperationContext): Promise<BridgedAnswer>;
  /** Tells that the call failed, and how that is answered. Called once at most. */
  failed(why: ServiceError): BridgedAnswer;
}

/**
 * One client's request on its way to a capability service, whatever the service does for it. It ends there when its
 * client leaves or cancels it, when it takes longer than any call may, or when the process stops.
 */
export class BridgedCall implements InFlightCall {
  readonly startedAt: number;
  activeAt: number;
  slot = -1;
  lasting = false;
  readonly #caller: Caller;
  readonly #client: BridgedClient;
  readonly #work: GrpcOperation;
  readonly #calls: InFlightCalls<InFlightCall>;
  readonly #log: TargetLogger;
  readonly #left = new AbortController();
  readonly #ending = new AbortController();
  #over = false;

  constructor(
    caller: Caller,
    client: BridgedClient,
    work: GrpcOperation,
    calls: InFlightCalls<InFlightCall>,
    log: TargetLogger,
  ) {
    this.#caller = caller;
    this.#client = client;
    this.#work = work;
    this.#calls = calls;
    this.#log = log;
    this.startedAt = calls.now();
    this.activeAt = this.startedAt;
  }

  /** Has the work done and answers with what it came to; never rejects. */
  async run(): Promise<void> {
    this.#client.onLeave(() => this.#clientLeft());
    this.#calls.watch(this);
    const answer = await this.#carriedOut();
    if (this.#over) return;
    this.#settle();
    this.#send(answer);
  }

  isFor(session: string, idText: string): boolean {
    return this.#caller.session?.id === session && this.#client.idText === idText;
  }

  cancel(): void {
    if (this.#over) return;
    this.#end(CLIENT_CANCELLED);
    this.#client.cancelled(readsStreams(this.#caller.headers.accept));
  }

  onLasting(): void {
    const { session, headers } = this.#caller;
    if (!this.#left.signal.aborted) makeResumable(this.#client, session, readsStreams(headers.accept));
  }

  onDeadline(limit: 'silence' | 'total'): void {
    if (this.#over) return;
    if (limit === 'silence') {
      // Calls to services have deadlines of their own, and a slow client is no silence of theirs.
      this.activeAt = this.#calls.now();
      this.#calls.watch(this);
      return;
    }
    this.#send(this.#end(`the call did not finish within ${this.#calls.limits.totalMs / 1000} s`));
  }

  /** The process does not wait for it any longer. */
  stop(): void {
    if (!this.#over) this.#send(this.#end('the service was stopped'));
  }

  async #carriedOut(): Promise<BridgedAnswer | undefined> {
    const { service } = this.#work;
    try {
      return await this.#work.carryOut({
        client: this.#client,
        left: this.#left.signal,
        signal: this.#ending.signal,
      });
    } catch (error) {
      // What was ended fails of that.
      if (this.#over) return undefined;
      logFailure(this.#log, this.#work, error);
      return this.#work.failed(toServiceError(error, service));
    }
  }

  #clientLeft(): void {
    this.#left.abort();
    // A legacy client that leaves has not cancelled: it says so when it does (mcp 1).
    if (this.#caller.era === 'modern' && !this.#over) this.#end(CLIENT_LEFT);
  }

  #send(answer: BridgedAnswer | undefined): void {
    if (answer?.kind === 'error') this.#client.error(answer.error);
    else if (answer) this.#client.callResult(answer.json, readsJson(this.#caller.headers.accept));
  }

  #end(why: string): BridgedAnswer {
    this.#settle();
    const answer = this.#work.failed(new ServiceError('UNKNOWN', why));
    this.#ending.abort();
    return answer;
  }

  #settle(): void {
    this.#over = true;
    this.#calls.unwatch(this);
  }
}

/** What services get to hear that calls of theirs were ended, in milliseconds. */
const LAST_WORDS_MS = 1_000;

/**
 * The calls to capability services that are under way, each until its work is over: also those whose client has left, so
 * that none is forgotten when the process stops (decisions 1.1, 6).
 */
export class BridgedCalls {
  readonly #calls: InFlightCalls<InFlightCall>;
  readonly #log: TargetLogger;
  readonly #running = new Map<BridgedCall, Promise<void>>();

  /** `calls` watches how long they take, and finds those that are cancelled. */
  constructor(calls: InFlightCalls<InFlightCall>, log: TargetLogger) {
    this.#calls = calls;
    this.#log = log;
  }

  /** How many there are. */
  get size(): number {
    return this.#running.size;
  }

  /** Begins one. */
  begin(caller: Caller, client: BridgedClient, work: GrpcOperation): void {
    const call = new BridgedCall(caller, client, work, this.#calls, this.#log);
    this.#running.set(
      call,
      call.run().finally(() => this.#running.delete(call)),
    );
  }

  /** Calls under way get so long to finish; what is left then is ended, at the service as well. */
  async close(graceMs = 0): Promise<void> {
    await withTimeout(Math.max(graceMs, 0), Promise.all(this.#running.values()));
    for (const call of this.#running.keys()) call.stop();
    await withTimeout(LAST_WORDS_MS, Promise.all(this.#running.values()));
  }
}
