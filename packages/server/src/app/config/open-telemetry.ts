import { statSync } from 'node:fs';
import {
  ConfigError,
  commaList,
  InvalidSettingError,
  integer,
  MAX_TIMER_MS,
  oneOf,
  quote,
  readSetting,
  type Setting,
} from '../../http/settings.ts';
import type { MetricSettings, SamplerSettings, TraceSettings } from '../../telemetry/otlp.ts';

/** OpenTelemetry export settings. An undefined signal is not exported. */
export interface OpenTelemetrySettings {
  readonly traces: TraceSettings | undefined;
  readonly metrics: MetricSettings | undefined;
  readonly warnings: readonly string[];
}

const ENDPOINT: Setting<string> = {
  accepts: 'an http or https URL, as http://collector:4318',
  secret: true,
  parse: (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
      throw new InvalidSettingError('is not an http or https URL');
    return text;
  },
};
const DISABLED: Setting<boolean> = {
  accepts: '"true" or "false"',
  parse: (text) => {
    // OpenTelemetry compares booleans case-insensitively.
    const value = text.toLowerCase();
    if (value !== 'true' && value !== 'false') throw new InvalidSettingError('is not true or false');
    return value === 'true';
  },
};
const PROTOCOL = oneOf('grpc', 'http/protobuf', 'http/json');
const MILLISECONDS = integer(1, MAX_TIMER_MS);
const COUNT = integer(1, 1_000_000);
const HEADERS: Setting<void> = {
  accepts: 'a comma-separated list of name=value, percent-encoded',
  secret: true,
  parse: (text) => {
    for (const item of commaList(text)) {
      if (!/^[\w!#$%&'*+.^`|~-]+\s*=/.test(item)) throw new InvalidSettingError('has an item that is not name=value');
      if (/%(?![\da-f]{2})/i.test(item))
        throw new InvalidSettingError('has a % that is not followed by two hex digits');
    }
  },
};
const FILE: Setting<void> = {
  accepts: 'a file in PEM',
  parse: (text) => {
    if (!statSync(text, { throwIfNoEntry: false })?.isFile()) throw new InvalidSettingError('is not a file');
  },
};
/**
 * Variables that the exporter library reads itself, by the end of their names. They are validated here because the
 * library silently ignores an invalid value, and would export nothing or without the certificate.
 */
const READ_BY_LIBRARY: readonly (readonly [string, Setting<unknown>])[] = [
  ['TIMEOUT', MILLISECONDS],
  ['COMPRESSION', oneOf('gzip', 'none')],
  ['HEADERS', HEADERS],
  ['CERTIFICATE', FILE],
  ['CLIENT_CERTIFICATE', FILE],
  ['CLIENT_KEY', FILE],
];
const RATIO: Setting<number> = {
  accepts: 'a number from 0 to 1',
  parse: (text) => {
    const value = Number(text);
    if (text.trim() === '' || !(value >= 0 && value <= 1)) throw new InvalidSettingError('is not a number from 0 to 1');
    return value;
  },
};
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
  const read = <T>(name: string, setting: Setting<T>): T | undefined => readSetting(env, name, setting);
  if (read('OTEL_SDK_DISABLED', DISABLED)) {
    return { traces: undefined, metrics: undefined, warnings: [] };
  }
  const hasEndpoint = read('OTEL_EXPORTER_OTLP_ENDPOINT', ENDPOINT) !== undefined;
  const protocol = read('OTEL_EXPORTER_OTLP_PROTOCOL', PROTOCOL) ?? 'http/protobuf';
  for (const signal of ['', 'TRACES_', 'METRICS_']) {
    for (const [name, setting] of READ_BY_LIBRARY) read(`OTEL_EXPORTER_OTLP_${signal}${name}`, setting);
  }
  const isExported = (signal: 'TRACES' | 'METRICS', otherExporters: readonly string[]): boolean => {
    const hasOwnEndpoint = read(`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`, ENDPOINT) !== undefined;
    return (
      parseExporters(env, `OTEL_${signal}_EXPORTER`, otherExporters)?.has('otlp') ?? (hasEndpoint || hasOwnEndpoint)
    );
  };
  const traces: TraceSettings = {
    protocol: read('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', PROTOCOL) ?? protocol,
    sampler: toSampler(read('OTEL_TRACES_SAMPLER', SAMPLER), read('OTEL_TRACES_SAMPLER_ARG', RATIO)),
    batch: omitUndefined({
      scheduledDelayMillis: read('OTEL_BSP_SCHEDULE_DELAY', MILLISECONDS),
      exportTimeoutMillis: read('OTEL_BSP_EXPORT_TIMEOUT', MILLISECONDS),
      maxQueueSize: read('OTEL_BSP_MAX_QUEUE_SIZE', COUNT),
      maxExportBatchSize: read('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', COUNT),
    }),
  };
  const metrics: MetricSettings = {
    protocol: read('OTEL_EXPORTER_OTLP_METRICS_PROTOCOL', PROTOCOL) ?? protocol,
    intervalMs: read('OTEL_METRIC_EXPORT_INTERVAL', MILLISECONDS) ?? 60_000,
    timeoutMs: read('OTEL_METRIC_EXPORT_TIMEOUT', MILLISECONDS) ?? 30_000,
  };
  return {
    traces: isExported('TRACES', []) ? traces : undefined,
    // The exporter prometheus needs no settings: /metrics always exists.
    metrics: isExported('METRICS', ['prometheus'])
      ? { ...metrics, timeoutMs: Math.min(metrics.timeoutMs, metrics.intervalMs) }
      : undefined,
    warnings: propagatorWarnings(env.OTEL_PROPAGATORS ?? ''),
  };
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

function toSampler(name = 'parentbased_always_on', ratio = 1): SamplerSettings {
  const kind = name.replace('parentbased_', '');
  return {
    parentBased: kind !== name,
    ratio: kind === 'always_on' ? 1 : kind === 'always_off' ? 0 : ratio,
  };
}

function omitUndefined<T extends object>(object: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const result: { [K in keyof T]?: Exclude<T[K], undefined> } = {};
  for (const key in object) {
    const value = object[key];
    if (value !== undefined) Object.assign(result, { [key]: value });
  }
  return result;
}

function propagatorWarnings(text: string): string[] {
  return commaList(text)
    .filter((name) => name !== 'tracecontext' && name !== 'baggage')
    .map(
      (name) => `OTEL_PROPAGATORS: ${quote(name)} is ignored; trace context is propagated as W3C Trace Context only`,
    );
}
