/** Settings, resource and log messages that the OTLP exporters of traces and metrics share. */

import type { ExportResult } from '@opentelemetry/core';
import {
  detectResources,
  type Resource,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceInstanceIdDetector,
  serviceNameEnvDetector,
} from '@opentelemetry/resources';
import type { TargetLogger } from './log.ts';
import { VERSION } from './version.ts';

/** OTLP transport. */
export type OtlpProtocol = 'grpc' | 'http/protobuf' | 'http/json';

/** Sampling of traces. */
export interface SamplerSettings {
  /** Follow the decision of the parent span, if there is one. */
  readonly parentBased: boolean;
  /** Ratio of the traces to sample, 0 to 1. */
  readonly ratio: number;
}

/** Settings of the trace exporter. */
export interface TraceSettings {
  readonly protocol: OtlpProtocol;
  readonly sampler: SamplerSettings;
  /** Milliseconds and numbers of spans (`OTEL_BSP_*`); the library's defaults if undefined. */
  readonly batch: {
    readonly scheduledDelayMillis?: number;
    readonly exportTimeoutMillis?: number;
    readonly maxQueueSize?: number;
    readonly maxExportBatchSize?: number;
  };
}

/** Settings of the metric exporter. */
export interface MetricSettings {
  readonly protocol: OtlpProtocol;
  /** Milliseconds between exports. */
  readonly intervalMs: number;
  /** Milliseconds for one export. */
  readonly timeoutMs: number;
}

/** Returns the resource: `sluice` of this version, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES override it. */
export function telemetryResource(): Resource {
  const detectors = [serviceInstanceIdDetector, resourceAttributesEnvDetector, serviceNameEnvDetector];
  return resourceFromAttributes({ 'service.name': 'sluice', 'service.version': VERSION }).merge(
    detectResources({ detectors }),
  );
}

const FAILED = 1;

/** Logs when exports begin to fail and when they succeed again. */
export class ExportReport {
  readonly #log: TargetLogger;
  readonly #failingMessage: string;
  readonly #recoveredMessage: string;
  #failing = false;

  constructor(log: TargetLogger, failingMessage: string, recoveredMessage: string) {
    this.#log = log;
    this.#failingMessage = failingMessage;
    this.#recoveredMessage = recoveredMessage;
  }

  /** Takes the result of one export. */
  ended({ code, error }: ExportResult): void {
    const failed = code === FAILED;
    if (failed && !this.#failing) this.#log.warn(this.#failingMessage, { reason: reasonOf(error) });
    else if (!failed && this.#failing) this.#log.info(this.#recoveredMessage);
    this.#failing = failed;
  }
}

/** Returns the status of an HTTP error only: its text comes from the collector and may repeat what it received. */
function reasonOf(error: Error | undefined): string | undefined {
  const code = error && 'code' in error ? error.code : undefined;
  return typeof code === 'number' ? `HTTP status ${code}` : error?.message;
}

/** Waits for the promise, but at most `graceMs` milliseconds. Never rejects. */
export async function settleWithin(graceMs: number, promise: Promise<unknown>): Promise<void> {
  const timeout = Promise.withResolvers<void>();
  const timer = setTimeout(timeout.resolve, graceMs);
  await Promise.race([promise.catch(() => undefined), timeout.promise]);
  clearTimeout(timer);
}
