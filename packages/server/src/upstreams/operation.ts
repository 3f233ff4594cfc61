import type { ToolCallErrorCategory } from '@sluice/contract';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { progressTokenText } from '@sluice/protocol/mcp/message-text';
import { withTimeout } from '@sluice/protocol/timing';
import { type Permit, requirePermit } from '../access/access.ts';
import type { Target } from '../access/target.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { CANCELED, TIMEOUT } from '../telemetry/tool-calls/event.ts';
import type { TraceContext } from '../telemetry/tracing/trace-context.ts';
import type { ClientFacts } from './client-facts.ts';
import {
  type CallEnd,
  CLIENT_CANCELED,
  CLIENT_DISCONNECTED,
  type InFlightCall,
  type InFlightCalls,
  SHUTDOWN,
} from './in-flight-calls.ts';
import { progressNotification } from './progress.ts';
import type { CallFailure, CallOutcome, CallReport, ResponseSink } from './response-sink.ts';

/** Failure of an operation. The message goes to the client. */
export class CallError extends Error {
  override readonly name = 'CallError';
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

  get report(): CallFailure {
    const { category, message, errorType } = this;
    return { category, message, errorType };
  }
}

/** Parameters of {@link Operation.execute}. */
export interface OperationContext {
  /** The operation is canceled. */
  readonly signal: AbortSignal;
  /** Undefined if no traces are exported. */
  readonly trace: TraceContext | undefined;
  /**
   * Returns the function that sends the client progress, for at most so many milliseconds: then a slow client no longer delays the
   * operation.
   */
  progress(forMs: number): ReportProgress;
}

/** Sends progress, if the client requests that. Resolves when the client can receive more, so that nothing is buffered here. */
export type ReportProgress = (text: string) => Promise<void>;

/** What becomes of a failed operation: its outcome, and what is recorded of it. */
export interface OperationFailure {
  readonly report: CallReport;
  outcome(): CallOutcome | Promise<CallOutcome>;
}

/** What an operation executes. */
export type OperationRequest = Pick<Target, 'entry' | 'message' | 'forward'>;

/** Execution of a request by this process, or by a service that is no MCP server. */
export interface Operation {
  /** Rejects with {@link CallError}; other errors are logged and end as an internal error. */
  execute(context: OperationContext): Promise<CallOutcome>;
  /** Called once at most; by default, the client gets a JSON-RPC error, and the report is that of the error. */
  onFailure?(error: CallError): Partial<OperationFailure>;
}

/**
 * One operation in progress. It is canceled when its client disconnects or cancels it, at its deadline, and when the
 * process stops.
 */
class OperationRun implements InFlightCall {
  readonly startedAt: number = performance.now();
  lastActivityAt: number = this.startedAt;
  /** Operations have their own deadlines, and waiting for a slow client does not count. */
  readonly mayBeIdle = true;
  index = -1;
  readonly #request: OperationRequest;
  readonly #sink: ResponseSink;
  readonly #operation: Operation;
  readonly #owner: RunningOperations;
  readonly #clientDisconnected = new AbortController();
  readonly #canceled = new AbortController();
  #settled = false;

  constructor(request: OperationRequest, sink: ResponseSink, operation: Operation, owner: RunningOperations) {
    this.#request = request;
    this.#sink = sink;
    this.#operation = operation;
    this.#owner = owner;
  }

  /** Executes the operation and sends its outcome; never rejects. */
  async run(): Promise<void> {
    this.#sink.onDisconnect(() => this.#onClientDisconnected());
    this.#owner.calls.add(this);
    const outcome = await this.#execute();
    if (this.#settled || !outcome) return;
    this.#settle();
    this.#sink.complete(outcome);
  }

  get client(): ClientFacts {
    return this.#sink.client;
  }

  get forward(): string | undefined {
    return this.#request.forward;
  }

  cancel(): void {
    this.#cancel(CLIENT_CANCELED);
  }

  onDeadline(): void {
    if (this.#settled) return;
    const what = `the call did not finish within ${this.#owner.calls.limits.totalMs / 1000} s`;
    const failure = this.#abort(new CallError('UNKNOWN', what, { errorType: TIMEOUT }));
    void responseOf(failure).then((outcome) => this.#sink.complete(outcome));
  }

  end({ error, category }: CallEnd): void {
    if (this.#settled) return;
    const { report } = this.#abort(new CallError(category, error.message, { errorType: 'aborted' }));
    this.#sink.complete({ kind: 'failed', error, report });
  }

  async #execute(): Promise<CallOutcome | undefined> {
    const signal = this.#canceled.signal;
    const { client } = this.#sink;
    const token = client.accepts.sse ? progressTokenText(this.#request.message.text) : undefined;
    const progress = (forMs: number): ReportProgress => {
      if (token === undefined) return async () => undefined;
      const ended = AbortSignal.any([signal, this.#clientDisconnected.signal]);
      return progressSender(this.#sink, token, { signal: ended, forMs });
    };
    try {
      return await this.#operation.execute({ signal, trace: this.#sink.observer?.trace, progress });
    } catch (error) {
      // The error is a consequence of the cancellation.
      if (this.#settled) return undefined;
      return responseOf(this.#failure(this.#owner.toCallError(this.#request, error)));
    }
  }

  #failure(error: CallError): OperationFailure {
    const { message, report } = error;
    const outcome = (): CallOutcome => ({ kind: 'failed', error: { code: INTERNAL_ERROR, message } });
    return { report, outcome, ...this.#operation.onFailure?.(error) };
  }

  #onClientDisconnected(): void {
    this.#clientDisconnected.abort();
    // A legacy client cancels explicitly; disconnecting is not a cancellation.
    if (this.#sink.client.era === 'modern') this.#cancel(CLIENT_DISCONNECTED);
  }

  #cancel(reason: string): void {
    if (this.#settled) return;
    const { report } = this.#abort(new CallError('UNKNOWN', reason, { errorType: CANCELED }));
    this.#sink.complete({ kind: 'canceled', report });
  }

  #abort(error: CallError): OperationFailure {
    this.#settle();
    const failure = this.#failure(error);
    this.#canceled.abort();
    return failure;
  }

  #settle(): void {
    this.#settled = true;
    this.#owner.calls.remove(this);
  }
}

/** Returns the outcome of a failed operation; never rejects. */
async function responseOf({ report, outcome }: OperationFailure): Promise<CallOutcome> {
  try {
    return { ...(await outcome()), report };
  } catch {
    return { kind: 'failed', error: { code: INTERNAL_ERROR, message: 'internal error' }, report };
  }
}

/**
 * Returns the function that sends progress notifications, numbered from 1, with the text as message (2025-11-25, "Progress").
 * `token` is JSON text. After `forMs`, or once `signal` is aborted, nothing is sent.
 */
export function progressSender(
  sink: ResponseSink,
  token: string,
  { signal, forMs }: { readonly signal: AbortSignal; readonly forMs: number },
): ReportProgress {
  const deadline = performance.now() + forMs;
  let count = 0;
  return async (text) => {
    const leftMs = deadline - performance.now();
    if (signal.aborted || leftMs <= 0 || sink.sendMessage(progressNotification(token, ++count, text))) return;
    const { promise: canSend, resolve } = Promise.withResolvers<void>();
    const done = (): void => resolve();
    sink.onDrain(done);
    signal.addEventListener('abort', done, { once: true });
    await withTimeout(leftMs, canSend);
    signal.removeEventListener('abort', done);
  };
}

/** Milliseconds for cancellations to reach the services. */
const CANCEL_DELIVERY_MS = 1_000;

/**
 * Operations in progress, also those whose client has disconnected, so that the process can wait for all when it stops.
 */
export class RunningOperations {
  readonly calls: InFlightCalls;
  readonly #log: TargetLogger;
  readonly #running = new Map<OperationRun, Promise<void>>();

  /** `calls` has their deadlines and cancellations. */
  constructor(calls: InFlightCalls, log: TargetLogger) {
    this.calls = calls;
    this.#log = log;
  }

  get size(): number {
    return this.#running.size;
  }

  start(permit: Permit, sink: ResponseSink, operation: Operation): void {
    requirePermit(permit);
    this.run(permit.target, sink, operation);
  }

  /** Starts an operation of our own, which executes nothing that needs a permit. */
  run(request: OperationRequest, sink: ResponseSink, operation: Operation): void {
    const run = new OperationRun(request, sink, operation, this);
    this.#running.set(
      run,
      run.run().finally(() => this.#running.delete(run)),
    );
  }

  /** Returns the failure that the client gets; one that the operation has not reported itself is logged. */
  toCallError({ entry, message }: OperationRequest, error: unknown): CallError {
    if (error instanceof CallError) return error;
    this.#log.error('call failed', { called: entry?.name ?? message.method, error });
    return new CallError('UNKNOWN', 'internal error', { cause: error });
  }

  /** Waits `graceMs` for operations in progress, then cancels them, also at the services. */
  async close(graceMs = 0): Promise<void> {
    await withTimeout(graceMs, Promise.all(this.#running.values()));
    for (const run of this.#running.keys()) run.end(SHUTDOWN);
    await withTimeout(CANCEL_DELIVERY_MS, Promise.all(this.#running.values()));
  }
}
