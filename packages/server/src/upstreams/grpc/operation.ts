import { setImmediate as nextTurn } from 'node:timers/promises';
import { getSystemErrorMap } from 'node:util';
import { status } from '@grpc/grpc-js';
import { serviceAddress, type ToolCallErrorCategory } from '@sluice/contract';
import { withTimeout } from '@sluice/protocol/timing';
import type { RpcError } from '../../http/outcome.ts';
import type { ServiceEntry } from '../../registry/entries.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { CANCELED, TIMEOUT } from '../../telemetry/tool-calls/event.ts';
import {
  CLIENT_CANCELED,
  CLIENT_DISCONNECTED,
  type InFlightCall,
  type InFlightCalls,
  SHUTTING_DOWN,
} from '../mcp/relay/in-flight-calls.ts';
import type { ResponseSink } from '../response-sink.ts';
import { type ContentResult, contentBytes, contentJson, isLargeContent } from './content-result.ts';
import { isStatusError, statusDetails, statusName } from './grpc-client.ts';

/** Failed call of a capability service. The message goes to the client. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
  readonly category: ToolCallErrorCategory;
  /** OpenTelemetry's `error.type`; by default the category. */
  readonly errorType: string;

  constructor(
    category: ToolCallErrorCategory,
    message: string,
    { errorType = category, ...options }: ErrorOptions & { readonly errorType?: string } = {},
  ) {
    super(message, options);
    this.category = category;
    this.errorType = errorType;
  }
}

/** Name and address of a service for messages. */
export function describeService(service: ServiceEntry): string {
  return `service ${service.name} at ${serviceAddress(service)}`;
}

/** Texts for statuses whose names are not descriptive. */
const FAULT_TEXTS: ReadonlyMap<status, string> = new Map([
  [status.UNAVAILABLE, 'is not available'],
  [status.FAILED_PRECONDITION, 'cannot do this now'],
  [status.DEADLINE_EXCEEDED, 'did not answer in time'],
]);

/**
 * Converts the error of a call for response and metrics: with name and address of the service if the service is at fault.
 * `service` is undefined if none is registered.
 */
function toServiceError(error: unknown, service: ServiceEntry | undefined): ServiceError {
  if (error instanceof ServiceError) return error;
  if (service && isUnreadable(error)) {
    return new ServiceError('SERVICE_UNAVAILABLE', `${describeService(service)} sent a reply that cannot be read`, {
      cause: error,
    });
  }
  if (!service || !isStatusError(error)) {
    return new ServiceError('UNKNOWN', 'internal error', { cause: error });
  }
  const fault = FAULT_TEXTS.get(error.code);
  const details = statusDetails(error);
  const message =
    fault === undefined
      ? details || `status ${statusName(error.code)}`
      : `${describeService(service)} ${fault}: ${details}`;
  const errorType = error.code === status.DEADLINE_EXCEEDED ? TIMEOUT : undefined;
  return new ServiceError('SERVICE_UNAVAILABLE', message, { cause: error, ...(errorType && { errorType }) });
}

/** True for the library's error for a reply that it cannot decompress: a status without code and description. */
function isUnreadable(error: unknown): boolean {
  return error instanceof Error && 'metadata' in error && 'code' in error && error.code === undefined;
}

/**
 * Logs the failure of a call to a capability service: of a status its name and the system's error code, but not the text
 * of the service, which may contain an argument.
 */
export function logFailure(
  log: TargetLogger,
  { name, service, requestId }: Pick<GrpcOperation, 'name' | 'service' | 'requestId'>,
  error: unknown,
): void {
  // Reported by response and event.
  if (error instanceof ServiceError) return;
  const fields = {
    called: name,
    service: service?.name,
    service_address: service && serviceAddress(service),
    service_request_id: requestId,
  };
  if (!isStatusError(error)) return log.error('call failed', { ...fields, error });
  if (!log.enabled('debug')) return;
  log.debug('call failed', { ...fields, status: statusName(error.code), code: findSystemCode(error.details) });
}

/** Finds the system's error code in a text: `ECONNREFUSED`. */
function findSystemCode(details: string): string | undefined {
  const codes = new Set(['ENOTFOUND', ...[...getSystemErrorMap().values()].map(([code]) => code)]);
  return details.match(/\bE[A-Z_0-9]+\b/g)?.find((code) => codes.has(code));
}

/** Result of an operation: a JSON-RPC result, or an error. */
export type OperationResult = ContentResult | { readonly kind: 'error'; readonly error: RpcError };

/** Parameters of {@link GrpcOperation.execute}. */
export interface OperationContext {
  readonly sink: ResponseSink;
  /** The client has disconnected, which does not always end the operation. */
  readonly clientDisconnected: AbortSignal;
  /** The operation is canceled. */
  readonly signal: AbortSignal;
}

/** Call of a tool or read of a resource, executed by a capability service. */
export interface GrpcOperation {
  /** Name of the tool or resource. */
  readonly name: string;
  /** Undefined if none is registered. */
  readonly service: ServiceEntry | undefined;
  /** Sent to the service as `x-service-request-id`. */
  readonly requestId: string;
  /** Executes the operation; rejects with the error of its call. */
  execute(context: OperationContext): Promise<OperationResult>;
  /** Reports the failure and returns its result. Called once at most. */
  onFailure(error: ServiceError): OperationResult;
}

/**
 * One operation in progress. It is canceled when its client disconnects or cancels it, at its deadline, and when the
 * process stops.
 */
export class OperationRun implements InFlightCall {
  readonly startedAt: number;
  activeAt: number;
  slot = -1;
  readonly #sink: ResponseSink;
  readonly #operation: GrpcOperation;
  readonly #calls: InFlightCalls<InFlightCall>;
  readonly #log: TargetLogger;
  readonly #clientDisconnected = new AbortController();
  readonly #canceled = new AbortController();
  #settled = false;

  constructor(sink: ResponseSink, operation: GrpcOperation, calls: InFlightCalls<InFlightCall>, log: TargetLogger) {
    this.#sink = sink;
    this.#operation = operation;
    this.#calls = calls;
    this.#log = log;
    this.startedAt = performance.now();
    this.activeAt = this.startedAt;
  }

  /** Executes the operation and writes its response; never rejects. */
  async run(): Promise<void> {
    this.#sink.onDisconnect(() => this.#onClientDisconnected());
    this.#calls.add(this);
    const result = await this.#execute();
    if (this.#settled) return;
    this.#settle();
    await this.#send(result);
  }

  matches(session: string, idText: string): boolean {
    const { client } = this.#sink;
    return client.session?.id === session && client.idText === idText;
  }

  cancel(): void {
    if (this.#settled) return;
    this.#abort(CLIENT_CANCELED, CANCELED);
    this.#sink.complete({ kind: 'canceled' });
  }

  onDeadline(limit: 'idle' | 'total'): void {
    if (this.#settled) return;
    if (limit === 'idle') {
      // Calls to services have their own deadlines, and waiting for a slow client does not count.
      this.activeAt = performance.now();
      this.#calls.add(this);
      return;
    }
    void this.#send(this.#abort(`the call did not finish within ${this.#calls.limits.totalMs / 1000} s`, TIMEOUT));
  }

  onShutdown(): void {
    if (this.#settled) return;
    this.#abort(SHUTTING_DOWN.message, 'aborted', 'SERVICE_UNAVAILABLE');
    this.#sink.complete({ kind: 'failed', error: SHUTTING_DOWN });
  }

  async #execute(): Promise<OperationResult | undefined> {
    const { service } = this.#operation;
    try {
      return await this.#operation.execute({
        sink: this.#sink,
        clientDisconnected: this.#clientDisconnected.signal,
        signal: this.#canceled.signal,
      });
    } catch (error) {
      // The error is a consequence of the cancellation.
      if (this.#settled) return undefined;
      logFailure(this.#log, this.#operation, error);
      return this.#operation.onFailure(toServiceError(error, service));
    }
  }

  #onClientDisconnected(): void {
    this.#clientDisconnected.abort();
    // A legacy client cancels explicitly; disconnecting is not a cancellation.
    if (this.#sink.client.era === 'modern' && !this.#settled) this.#abort(CLIENT_DISCONNECTED, CANCELED);
  }

  async #send(result: OperationResult | undefined): Promise<void> {
    if (!result) return;
    if (result.kind === 'error') return this.#sink.complete({ kind: 'failed', error: result.error });
    if (!isLargeContent(result)) return this.#sink.complete({ kind: 'result', json: contentJson(result) });
    const steps = contentBytes(result);
    let step = steps.next();
    while (!step.done) {
      await nextTurn();
      step = steps.next();
    }
    const before = [Buffer.from('{"jsonrpc":"2.0","id":')];
    const after = [Buffer.from(',"result":'), ...step.value, Buffer.from('}')];
    this.#sink.complete({ kind: 'large', bytes: { before, after }, value: { result: {} }, status: 200 });
  }

  #abort(reason: string, errorType: string, category: ToolCallErrorCategory = 'UNKNOWN'): OperationResult {
    this.#settle();
    const result = this.#operation.onFailure(new ServiceError(category, reason, { errorType }));
    this.#canceled.abort();
    return result;
  }

  #settle(): void {
    this.#settled = true;
    this.#calls.remove(this);
  }
}

/** Milliseconds for cancellations to reach the services. */
const CANCEL_DELIVERY_MS = 1_000;

/**
 * Operations in progress, also those whose client has disconnected, so that the process can wait for all when it stops.
 */
export class RunningOperations {
  readonly #calls: InFlightCalls<InFlightCall>;
  readonly #log: TargetLogger;
  readonly #running = new Map<OperationRun, Promise<void>>();

  /** `calls` has their deadlines and cancellations. */
  constructor(calls: InFlightCalls<InFlightCall>, log: TargetLogger) {
    this.#calls = calls;
    this.#log = log;
  }

  get size(): number {
    return this.#running.size;
  }

  /** Starts an operation. */
  start(sink: ResponseSink, operation: GrpcOperation): void {
    const run = new OperationRun(sink, operation, this.#calls, this.#log);
    this.#running.set(
      run,
      run.run().finally(() => this.#running.delete(run)),
    );
  }

  /** Waits `graceMs` for operations in progress, then cancels them, also at the services. */
  async close(graceMs = 0): Promise<void> {
    await withTimeout(Math.max(graceMs, 0), Promise.all(this.#running.values()));
    for (const run of this.#running.keys()) run.onShutdown();
    await withTimeout(CANCEL_DELIVERY_MS, Promise.all(this.#running.values()));
  }
}
