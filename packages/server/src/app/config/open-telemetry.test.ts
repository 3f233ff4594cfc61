import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../http/settings.ts';
import { parseOpenTelemetry } from './open-telemetry.ts';

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
const SAMPLED = { parentBased: true, ratio: 1 };
const BATCH = {
  scheduledDelayMillis: 5_000,
  exportTimeoutMillis: 30_000,
  maxQueueSize: 2_048,
  maxExportBatchSize: 512,
};

/** Names of the exported signals. */
function exported(env: NodeJS.ProcessEnv): string[] {
  const { traces, metrics } = parseOpenTelemetry(env);
  return [...(traces ? ['traces'] : []), ...(metrics ? ['metrics'] : [])];
}

function errorOf(env: NodeJS.ProcessEnv): string {
  try {
    parseOpenTelemetry(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  throw new Error('no error');
}

describe('exported signals', () => {
  it.each<[string, NodeJS.ProcessEnv, string[]]>([
    ['none without variables', {}, []],
    ['none for empty variables', { OTEL_EXPORTER_OTLP_ENDPOINT: '', OTEL_TRACES_EXPORTER: '' }, []],
    ['both for an endpoint', ENDPOINT, ['traces', 'metrics']],
    ['traces for their endpoint', { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://t/v1/traces' }, ['traces']],
    ['metrics for their endpoint', { OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://[::1]:1' }, ['metrics']],
    ['traces for their exporter', { OTEL_TRACES_EXPORTER: 'otlp' }, ['traces']],
    ['no traces with the exporter none', { ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' }, ['metrics']],
    ['no metrics with the exporter none', { ...ENDPOINT, OTEL_METRICS_EXPORTER: 'none' }, ['traces']],
    ['no metrics with the exporter prometheus', { ...ENDPOINT, OTEL_METRICS_EXPORTER: 'prometheus' }, ['traces']],
    ['metrics with the exporters prometheus and otlp', { OTEL_METRICS_EXPORTER: 'prometheus, otlp' }, ['metrics']],
    ['none if the SDK is disabled', { ...ENDPOINT, OTEL_SDK_DISABLED: 'true' }, []],
    ['both if the SDK is not disabled', { ...ENDPOINT, OTEL_SDK_DISABLED: 'false' }, ['traces', 'metrics']],
    ['none, without validation, if the SDK is disabled', { OTEL_SDK_DISABLED: 'true', OTEL_TRACES_SAMPLER: 'x' }, []],
  ])('%s', (_, env, expected) => {
    expect(exported(env)).toEqual(expected);
  });
});

describe('export settings', () => {
  const endpoint = ENDPOINT.OTEL_EXPORTER_OTLP_ENDPOINT;

  it('have the defaults of OpenTelemetry', () => {
    expect(parseOpenTelemetry(ENDPOINT)).toEqual({
      traces: { endpoint, protocol: 'http/protobuf', sampler: SAMPLED, batch: BATCH },
      metrics: { endpoint, protocol: 'http/protobuf', intervalMs: 60_000, timeoutMs: 30_000 },
      warnings: [],
    });
  });

  it('can differ between signals', () => {
    const { traces, metrics } = parseOpenTelemetry({
      ...ENDPOINT,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
      OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: 'http/json',
      OTEL_METRIC_EXPORT_INTERVAL: '1000',
    });
    expect(traces?.protocol).toBe('grpc');
    expect(metrics).toEqual({ endpoint, protocol: 'http/json', intervalMs: 1000, timeoutMs: 1000 });
  });

  it('include the batch settings', () => {
    const { traces } = parseOpenTelemetry({
      ...ENDPOINT,
      OTEL_BSP_SCHEDULE_DELAY: '1',
      OTEL_BSP_EXPORT_TIMEOUT: '2',
      OTEL_BSP_MAX_QUEUE_SIZE: '3',
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '4',
    });
    expect(traces?.batch).toEqual({
      scheduledDelayMillis: 1,
      exportTimeoutMillis: 2,
      maxQueueSize: 3,
      maxExportBatchSize: 4,
    });
  });

  it.each([
    ['parentbased_always_on', { parentBased: true, ratio: 1 }],
    ['parentbased_always_off', { parentBased: true, ratio: 0 }],
    ['parentbased_traceidratio', { parentBased: true, ratio: 0.25 }],
    ['always_on', { parentBased: false, ratio: 1 }],
    ['always_off', { parentBased: false, ratio: 0 }],
    ['traceidratio', { parentBased: false, ratio: 0.25 }],
  ])('include the sampler %s', (name, expected) => {
    const env = { ...ENDPOINT, OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: '0.25' };
    expect(parseOpenTelemetry(env).traces?.sampler).toEqual(expected);
  });

  it('sample everything without a ratio', () => {
    const env = { ...ENDPOINT, OTEL_TRACES_SAMPLER: 'traceidratio' };
    expect(parseOpenTelemetry(env).traces?.sampler).toEqual({ parentBased: false, ratio: 1 });
  });

  it('warn of unsupported propagators', () => {
    const { warnings } = parseOpenTelemetry({ OTEL_PROPAGATORS: 'tracecontext, baggage,b3' });
    expect(warnings).toEqual([expect.stringMatching(/^OTEL_PROPAGATORS: "b3" is ignored/)]);
  });
});

describe('an invalid variable', () => {
  it.each([
    ['OTEL_SDK_DISABLED', 'yes'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4317'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'ftp://collector'],
    ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', '/v1/traces'],
    ['OTEL_EXPORTER_OTLP_METRICS_ENDPOINT', 'nowhere'],
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'http'],
    ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'GRPC'],
    ['OTEL_EXPORTER_OTLP_METRICS_PROTOCOL', 'otlp'],
    ['OTEL_TRACES_EXPORTER', 'zipkin'],
    ['OTEL_TRACES_EXPORTER', 'prometheus'],
    ['OTEL_METRICS_EXPORTER', 'otlp,console'],
    ['OTEL_TRACES_SAMPLER', 'sometimes'],
    ['OTEL_TRACES_SAMPLER_ARG', '1.5'],
    ['OTEL_TRACES_SAMPLER_ARG', '-0.1'],
    ['OTEL_TRACES_SAMPLER_ARG', 'half'],
    ['OTEL_BSP_SCHEDULE_DELAY', '0'],
    ['OTEL_BSP_EXPORT_TIMEOUT', '1s'],
    ['OTEL_BSP_MAX_QUEUE_SIZE', '-1'],
    ['OTEL_BSP_MAX_EXPORT_BATCH_SIZE', '1.5'],
    ['OTEL_EXPORTER_OTLP_TIMEOUT', 'soon'],
    ['OTEL_EXPORTER_OTLP_TRACES_COMPRESSION', 'zip'],
    ['OTEL_EXPORTER_OTLP_METRICS_HEADERS', 'api-key'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'a=1,b=%zz'],
    ['OTEL_EXPORTER_OTLP_CERTIFICATE', '/nowhere/ca.pem'],
    ['OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY', '/'],
    ['OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE', 'sometimes'],
    ['OTEL_METRIC_EXPORT_INTERVAL', '99999999999'],
    ['OTEL_METRIC_EXPORT_TIMEOUT', 'never'],
  ])('is reported with the expected value: %s=%s', (name, value) => {
    const message = errorOf({ [name]: value });
    expect(message).toMatch(new RegExp(`^${name}: .*expected `));
    expect(message).not.toContain('\n');
  });

  it.each([
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'user:s3cret@collector'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 's3cret'],
  ])('is reported without its value if that may be a secret: %s', (name, value) => {
    expect(errorOf({ [name]: value })).not.toContain('s3cret');
  });

  it('is none that the library accepts', () => {
    const env = {
      OTEL_EXPORTER_OTLP_HEADERS: 'api-key=a%20b, Authorization = Bearer%20c=,',
      OTEL_EXPORTER_OTLP_TIMEOUT: '500',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
      OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: 'Delta',
      OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: import.meta.filename,
    };
    expect(exported({ ...ENDPOINT, ...env })).toEqual(['traces', 'metrics']);
  });
});
