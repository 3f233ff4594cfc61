import { statSync } from 'node:fs';
import { z } from 'zod';
import {
  ConfigError,
  commaList,
  InvalidSettingError,
  integer,
  MAX_TIMER_MS,
  oneOf,
  parseVariables,
  quote,
  textSchema,
  variable,
} from '../../http/settings.ts';
import type { MetricSettings, SamplerSettings, TraceSettings } from '../../telemetry/otlp.ts';

/** OpenTelemetry export settings. An undefined signal is not exported. */
export interface OpenTelemetrySettings {
  readonly traces: TraceSettings | undefined;
  readonly metrics: MetricSettings | undefined;
  readonly warnings: readonly string[];
}

const ENDPOINT = textSchema(
  'an http or https URL, as http://collector:4318',
  (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
      throw new InvalidSettingError('is not an http or https URL');
    }
    return text;
  },
  true,
).optional();
const PROTOCOL = oneOf('grpc', 'http/protobuf', 'http/json');
const MILLISECONDS = integer(1, MAX_TIMER_MS);
const COUNT = integer(1, 1_000_000);
const HEADERS = textSchema(
  'a comma-separated list of name=value, percent-encoded',
  (text) => {
    for (const item of commaList(text)) {
      if (!/^[\w!#$%&'*+.^`|~-]+\s*=/.test(item)) throw new InvalidSettingError('has an item that is not name=value');
      if (/%(?![\da-f]{2})/i.test(item))
        throw new InvalidSettingError('has a % that is not followed by two hex digits');
    }
  },
  true,
).optional();
const FILE = textSchema('a file in PEM', (text) => {
  if (!statSync(text, { throwIfNoEntry: false })?.isFile()) throw new InvalidSettingError('is not a file');
}).optional();
/**
 * Variables that the exporter library reads itself, by the end of their names. They are validated here because the
 * library silently ignores an invalid value, and would export nothing or without the certificate.
 */
const READ_BY_LIBRARY = {
  TIMEOUT: MILLISECONDS.optional(),
  COMPRESSION: oneOf('gzip', 'none').optional(),
  HEADERS,
  CERTIFICATE: FILE,
  CLIENT_CERTIFICATE: FILE,
  CLIENT_KEY: FILE,
};
const RATIO = textSchema('a number from 0 to 1', (text) => {
  const value = Number(text);
  if (text.trim() === '' || !(value >= 0 && value <= 1)) throw new InvalidSettingError('is not a number from 0 to 1');
  return value;
});
const SAMPLER = oneOf(
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
  'always_on',
  'always_off',
  'traceidratio',
);

/**
 * Parses OpenTelemetry's standard variables. Nothing is exported unless one of these is set: OTEL_EXPORTER_OTLP_ENDPOINT,
 * its variants for TRACES and METRICS, OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER. The exporter library reads endpoints,
 * headers, certificates, compression, timeouts and resource attributes itself. Throws {@link ConfigError}.
 */
export function parseOpenTelemetry(env: NodeJS.ProcessEnv): OpenTelemetrySettings {
  const { OTEL_SDK_DISABLED: disabled } = parseVariables(env, { OTEL_SDK_DISABLED: oneOfAnyCase('true', 'false') });
  if (disabled === 'true') return { traces: undefined, metrics: undefined, warnings: [] };
  for (const signal of ['', 'TRACES_', 'METRICS_']) {
    const named = Object.entries(READ_BY_LIBRARY).map(([name, schema]) => [
      `OTEL_EXPORTER_OTLP_${signal}${name}`,
      schema,
    ]);
    parseVariables(env, Object.fromEntries(named));
  }
  const traces = parseSignal(env, 'TRACES', []);
  // The exporter prometheus needs no settings: /metrics always exists.
  const metrics = parseSignal(env, 'METRICS', ['prometheus']);
  const { sampler, ratio, interval, timeout } = parseVariables(env, {
    sampler: variable('OTEL_TRACES_SAMPLER', SAMPLER.default('parentbased_always_on')),
    ratio: variable('OTEL_TRACES_SAMPLER_ARG', RATIO.default(1)),
    interval: variable('OTEL_METRIC_EXPORT_INTERVAL', MILLISECONDS.default(60_000)),
    timeout: variable('OTEL_METRIC_EXPORT_TIMEOUT', MILLISECONDS.default(30_000)),
    OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: oneOfAnyCase('cumulative', 'delta', 'lowmemory'),
  });
  const batch = parseVariables(env, {
    scheduledDelayMillis: variable('OTEL_BSP_SCHEDULE_DELAY', MILLISECONDS.default(5_000)),
    exportTimeoutMillis: variable('OTEL_BSP_EXPORT_TIMEOUT', MILLISECONDS.default(30_000)),
    maxQueueSize: variable('OTEL_BSP_MAX_QUEUE_SIZE', COUNT.default(2_048)),
    maxExportBatchSize: variable('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', COUNT.default(512)),
  });
  return {
    traces: traces && { ...traces, sampler: toSampler(sampler, ratio), batch },
    metrics: metrics && { ...metrics, intervalMs: interval, timeoutMs: Math.min(timeout, interval) },
    warnings: propagatorWarnings(env.OTEL_PROPAGATORS ?? ''),
  };
}

/** Parses where a signal is exported to; undefined if it is not. */
function parseSignal(env: NodeJS.ProcessEnv, signal: 'TRACES' | 'METRICS', otherExporters: readonly string[]) {
  const own = parseVariables(env, {
    endpoint: variable(`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`, ENDPOINT),
    protocol: variable(`OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`, PROTOCOL.optional()),
  });
  const common = parseVariables(env, {
    endpoint: variable('OTEL_EXPORTER_OTLP_ENDPOINT', ENDPOINT),
    protocol: variable('OTEL_EXPORTER_OTLP_PROTOCOL', PROTOCOL.default('http/protobuf')),
  });
  const endpoint = own.endpoint ?? common.endpoint;
  const exporters = parseExporters(env, `OTEL_${signal}_EXPORTER`, otherExporters);
  if (!(exporters?.has('otlp') ?? endpoint !== undefined)) return undefined;
  return { endpoint, protocol: own.protocol ?? common.protocol };
}

/** One of the given values, which OpenTelemetry compares case-insensitively. */
function oneOfAnyCase<const T extends string>(...values: readonly [T, ...T[]]) {
  return z
    .string()
    .toLowerCase()
    .pipe(oneOf(...values))
    .optional();
}

/** Returns the exporters in a variable; undefined if it is unset. */
function parseExporters(
  env: NodeJS.ProcessEnv,
  name: string,
  otherExporters: readonly string[],
): Set<string> | undefined {
  const text = env[name];
  if (text === undefined || text === '') return undefined;
  const known = ['otlp', 'none', ...otherExporters];
  const named = commaList(text);
  const unknown = named.find((each) => !known.includes(each));
  if (unknown !== undefined) {
    throw new ConfigError(
      `${name}: ${quote(unknown)} is not supported; expected a comma-separated list of ${known.join(', ')}`,
    );
  }
  return new Set(named);
}

function toSampler(name: string, ratio: number): SamplerSettings {
  const kind = name.replace('parentbased_', '');
  return {
    parentBased: kind !== name,
    ratio: kind === 'always_on' ? 1 : kind === 'always_off' ? 0 : ratio,
  };
}

function propagatorWarnings(text: string): string[] {
  return commaList(text)
    .filter((name) => name !== 'tracecontext' && name !== 'baggage')
    .map(
      (name) => `OTEL_PROPAGATORS: ${quote(name)} is ignored; trace context is propagated as W3C Trace Context only`,
    );
}
