import { Metadata, type ServiceError as StatusError, status } from '@grpc/grpc-js';
import { type TraceContext, traceParent } from '../telemetry/tracing/trace-context.ts';

/** Settings of calls to capability services (`service.bridge.grpc.*`; decisions 1.2, 8). */
export interface CallSettings {
  /** Milliseconds for each attempt. */
  readonly timeoutMs: number;
  /** Attempts after the first one. */
  readonly maxRetries: number;
  /** Milliseconds before the second attempt; each further one waits twice as long. */
  readonly retryDelayMs: number;
}

/** One call, as its caller knows it. */
export interface Call {
  /** Goes along as `x-service-request-id`. */
  readonly requestId: string;
  /** Where the call stands in a trace; goes along as W3C trace context. */
  readonly trace?: TraceContext | undefined;
  /** Ends the call at the service. */
  readonly signal?: AbortSignal | undefined;
}

/** What goes along with every call (decisions 4.10). */
export function metadataOf({ requestId, trace }: Call): Metadata {
  const metadata = new Metadata();
  metadata.set('x-service-request-id', requestId);
  if (trace) {
    metadata.set('traceparent', traceParent(trace));
    if (trace.state !== undefined) metadata.set('tracestate', trace.state);
  }
  return metadata;
}

/** The gRPC status of a failed call; undefined when it failed otherwise. */
export function statusOf(error: unknown): status | undefined {
  return isStatusError(error) ? error.code : undefined;
}

/** The name of a status; of one that has none, its number. */
export function statusName(code: status): string {
  return status[code] ?? String(code);
}

/** True for what the library rejects calls with. */
export function isStatusError(error: unknown): error is StatusError {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' && 'details' in error;
}

/** What a failed call says of itself besides its status; the service may have written it. */
export function detailsOf({ details }: StatusError): string {
  // The library adds a note of name resolution, which mostly has nothing in it.
  return details.replace(/\.? Resolution note: $/, '');
}
