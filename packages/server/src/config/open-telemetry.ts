import { statSync } from 'node:fs';
import { LONGEST_TIMER_MS } from '../longest-timer.ts';
import { ConfigError } from './config-error.ts';
import { commaList, InvalidSettingError, integer, oneOf, quote, readSetting, type Setting } from './setting.ts';

/** How OpenTelemetry's data is sent. */
export type OtlpProtocol = 'grpc' | 'http/protobuf' | 'http/json';

/** Which traces are recorded where nobody before us has decided it; `parentBased`: who has, is followed. */
export interface SamplerSettings {
  readonly parentBased: boolean;
  /** Share of the traces, 0 to 1. */
  readonly ratio: number;
}

/** How traces are exported. */
export interface TraceSettings {
  readonly protocol: OtlpProtocol;
  readonly sampler: SamplerSettings;
  /** Milliseconds, and numbers of spans (`OTEL_BSP_*`); undefined: the library's defaults. */
  readonly batch: {
    readonly scheduledDelayMillis?: number;
    readonly exportTimeoutMillis?: number;
    readonly maxQueueSize?: number;
    readonly maxExportBatchSize?: number;
  };
}

/** How metrics are exported. */
export interface MetricSettings {
  readonly protocol: OtlpProtocol;
  /** Milliseconds between exports (default 60 s), and for one of them (default 30 s). */
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

/** What is exported to an OpenTelemetry collector; undefined: nothing. */
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
    // OpenTelemetry has it in any case.
    const value = text.toLowerCase();
    if (value !== 'true' && value !== 'false') throw new InvalidSettingError('is neither true nor false');
    return value === 'true';
  },
};
const PROTOCOL = oneOf('grpc', 'http/protobuf', 'http/json');
const MILLISECONDS = integer(1, LONGEST_TIMER_MS);
const COUNT = integer(1, 1_000_000);
const HEADERS: Setting<void> = {
  accepts: 'a comma list of name=value, percent-encoded',
  secret: true,
  parse: (text) => {
    for (const item of commaList(text)) {
      if (!/^[\w!#$%&'*+.^`|~-]+\s*=/.test(item)) throw new InvalidSettingError('has a part that is no name=value');
      if (/%(?![\da-f]{2})/i.test(item))
        throw new InvalidSettingError('has a % that is not followed by two hex digits');
    }
  },
};
const FILE: Setting<void> = {
  accepts: 'a file in PEM',
  parse: (text) => {
    if (!statSync(text, { throwIfNoEntry: false })?.isFile()) throw new InvalidSettingError('is no file');
  },
};
/**
 * What the library reads by itself, by the end of its name. Of a value that cannot be it says nothing and goes on without:
 * no traces would come, or without the certificate.
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
 * What OpenTelemetry's standard variables ask for. Nothing is exported unless an endpoint or an exporter is named:
 * OTEL_EXPORTER_OTLP_ENDPOINT, the same for TRACES and METRICS, OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER. Endpoints,
 * headers, certificates, compression and time-outs of the exporters, and the attributes of the resource, are read by the
 * library itself; here it is seen to that they can be. Throws {@link ConfigError}.
 */
export function openTelemetrySettings(env: NodeJS.ProcessEnv): OpenTelemetrySettings {
  const read = <T>(name: string, setting: Setting<T>): T | undefined => readSetting(env, name, setting);
  if (read('OTEL_SDK_DISABLED', DISABLED)) {
    return { traces: undefined, metrics: undefined, warnings: [] };
  }
  const everything = read('OTEL_EXPORTER_OTLP_ENDPOINT', ENDPOINT) !== undefined;
  const protocol = read('OTEL_EXPORTER_OTLP_PROTOCOL', PROTOCOL) ?? 'http/protobuf';
  for (const signal of ['', 'TRACES_', 'METRICS_']) {
    for (const [name, setting] of READ_BY_LIBRARY) read(`OTEL_EXPORTER_OTLP_${signal}${name}`, setting);
  }
  const exports = (signal: 'TRACES' | 'METRICS', others: readonly string[]): boolean => {
    const named = read(`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`, ENDPOINT) !== undefined;
    return exporters(env, `OTEL_${signal}_EXPORTER`, others)?.has('otlp') ?? (everything || named);
  };
  const traces: TraceSettings = {
    protocol: read('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', PROTOCOL) ?? protocol,
    sampler: sampler(read('OTEL_TRACES_SAMPLER', SAMPLER), read('OTEL_TRACES_SAMPLER_ARG', RATIO)),
    batch: defined({
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
    traces: exports('TRACES', []) ? traces : undefined,
    // They are at /metrics whatever is said here.
    metrics: exports('METRICS', ['prometheus'])
      ? { ...metrics, timeoutMs: Math.min(metrics.timeoutMs, metrics.intervalMs) }
      : undefined,
    warnings: propagatorWarnings(env.OTEL_PROPAGATORS ?? ''),
  };
}

/** The exporters that the variable names, undefined where it is unset. */
function exporters(env: NodeJS.ProcessEnv, name: string, others: readonly string[]): Set<string> | undefined {
  const text = env[name];
  if (text === undefined || text === '') return undefined;
  const known = ['otlp', 'none', ...others];
  const named = commaList(text);
  const unknown = named.find((each) => !known.includes(each));
  if (unknown !== undefined) {
    throw new ConfigError(`${name}: ${quote(unknown)} is not known; accepted: a comma list of ${known.join(', ')}`);
  }
  return new Set(named);
}

function sampler(name = 'parentbased_always_on', ratio = 1): SamplerSettings {
  const kind = name.replace('parentbased_', '');
  return {
    parentBased: kind !== name,
    ratio: kind === 'always_on' ? 1 : kind === 'always_off' ? 0 : ratio,
  };
}

/** Without the members that have no value. */
function defined<T extends object>(object: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
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
    .map((name) => `OTEL_PROPAGATORS: ${quote(name)} is ignored; trace context goes on as W3C tracecontext`);
}
