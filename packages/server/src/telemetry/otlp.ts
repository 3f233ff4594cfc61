/** Settings, resource and log messages that the OTLP exporters of traces and metrics share. */

import { readFileSync } from 'node:fs';
import type { AgentOptions } from 'node:https';
import { type ExportResult, ExportResultCode, type InstrumentationScope } from '@opentelemetry/core';
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
  /** URL of the collector; undefined for the library's default on loopback. */
  readonly endpoint?: string | undefined;
  readonly sampler: SamplerSettings;
  /** Milliseconds and numbers of spans (`OTEL_BSP_*`). */
  readonly batch: {
    readonly scheduledDelayMillis: number;
    readonly exportTimeoutMillis: number;
    readonly maxQueueSize: number;
    readonly maxExportBatchSize: number;
  };
}

/** Settings of the metric exporter. */
export interface MetricSettings {
  readonly protocol: OtlpProtocol;
  /** URL of the collector; undefined for the library's default on loopback. */
  readonly endpoint?: string | undefined;
  /** Milliseconds between exports. */
  readonly intervalMs: number;
  /** Milliseconds for one export. */
  readonly timeoutMs: number;
}

/** Instrumentation scope of spans and metrics. */
export const SCOPE: InstrumentationScope = { name: 'sluice', version: VERSION };

/** Returns the resource: `sluice` of this version, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES override it. */
export function telemetryResource(): Resource {
  const detectors = [serviceInstanceIdDetector, resourceAttributesEnvDetector, serviceNameEnvDetector];
  return resourceFromAttributes({ 'service.name': 'sluice', 'service.version': VERSION }).merge(
    detectResources({ detectors }),
  );
}

/** Returns the URL of the proxy for a URL, with its credentials; undefined for none. */
export type ProxyFor = (url: URL) => string | undefined;

/** Classes of an exporter by transport, each from a package of its own. */
interface ExporterClasses<Exporter> {
  readonly grpc: () => Promise<new () => Exporter>;
  readonly 'http/protobuf': () => Promise<new (options: ProxiedExporter) => Exporter>;
  readonly 'http/json': () => Promise<new (options: ProxiedExporter) => Exporter>;
}

/**
 * Creates an exporter with the class of its transport, whose package is imported only now. The exporter reads endpoint, headers,
 * certificates, compression, timeout and temporality from the environment.
 */
export async function createExporter<Exporter>(
  signal: 'TRACES' | 'METRICS',
  { protocol, endpoint }: Pick<TraceSettings | MetricSettings, 'protocol' | 'endpoint'>,
  proxyFor: ProxyFor | undefined,
  classes: ExporterClasses<Exporter>,
): Promise<Exporter> {
  // The library for OTLP over gRPC reads the variables of proxies itself.
  if (protocol === 'grpc') return new (await classes.grpc())();
  return new (await classes[protocol]())(proxiedExporter(signal, endpoint, proxyFor));
}

/** Options of an exporter that sends through a proxy. */
interface ProxiedExporter {
  readonly httpAgentOptions?: AgentOptions;
}

/**
 * Returns the options of an HTTP exporter that sends through a proxy; none if there is no proxy. They replace those that the
 * library would make from the environment, so that they have its certificates, too.
 */
function proxiedExporter(
  signal: 'TRACES' | 'METRICS',
  endpoint: string | undefined,
  proxyFor: ProxyFor | undefined,
): ProxiedExporter {
  const proxy = endpoint === undefined ? undefined : proxyFor?.(new URL(endpoint));
  if (proxy === undefined) return {};
  const file = (name: string) => {
    const path = process.env[`OTEL_EXPORTER_OTLP_${signal}_${name}`] || process.env[`OTEL_EXPORTER_OTLP_${name}`];
    return path ? readFileSync(path) : undefined;
  };
  const tls = { ca: file('CERTIFICATE'), cert: file('CLIENT_CERTIFICATE'), key: file('CLIENT_KEY') };
  return { httpAgentOptions: { keepAlive: true, ...tls, proxyEnv: { HTTP_PROXY: proxy, HTTPS_PROXY: proxy } } };
}

/** Logs when the exports of `exporter` begin to fail and when they succeed again; wraps its method `export`. */
export function logOutages<Items>(
  exporter: { export(items: Items, done: (result: ExportResult) => void): void },
  log: TargetLogger,
  { failing, recovered }: { readonly failing: string; readonly recovered: string },
): void {
  const send = exporter.export.bind(exporter);
  let isFailing = false;
  exporter.export = (items, done) =>
    send(items, (result) => {
      const failed = result.code === ExportResultCode.FAILED;
      if (failed && !isFailing) log.warn(failing, { reason: reasonOf(result.error) });
      else if (!failed && isFailing) log.info(recovered);
      isFailing = failed;
      done(result);
    });
}

/** Returns the status of an HTTP error only: its text comes from the collector and may repeat what it received. */
function reasonOf(error: Error | undefined): string | undefined {
  const code = error && 'code' in error ? error.code : undefined;
  return typeof code === 'number' ? `HTTP status ${code}` : error?.message;
}
