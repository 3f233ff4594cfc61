import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../http/address.ts';
import { openTelemetrySettings } from './environment.ts';

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
const SAMPLED = { parentBased: true, ratio: 1 };

/** What is exported. */
function exported(env: NodeJS.ProcessEnv): string[] {
  const { traces, metrics } = openTelemetrySettings(env);
  return [...(traces ? ['traces'] : []), ...(metrics ? ['metrics'] : [])];
}

function complaint(env: NodeJS.ProcessEnv): string {
  try {
    openTelemetrySettings(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  throw new Error('nothing was complained of');
}

describe('what is exported', () => {
  it.each<[string, NodeJS.ProcessEnv, string[]]>([
    ['nothing where nothing is set', {}, []],
    ['nothing for variables that are empty', { OTEL_EXPORTER_OTLP_ENDPOINT: '', OTEL_TRACES_EXPORTER: '' }, []],
    ['both for an endpoint', ENDPOINT, ['traces', 'metrics']],
    ['traces for their endpoint', { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://t/v1/traces' }, ['traces']],
    ['metrics for their endpoint', { OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://[::1]:1' }, ['metrics']],
    ['traces for their exporter', { OTEL_TRACES_EXPORTER: 'otlp' }, ['traces']],
    ['no traces where none are wanted', { ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' }, ['metrics']],
    ['no metrics where none are wanted', { ...ENDPOINT, OTEL_METRICS_EXPORTER: 'none' }, ['traces']],
    ['no metrics where they are fetched', { ...ENDPOINT, OTEL_METRICS_EXPORTER: 'prometheus' }, ['traces']],
    ['metrics where they are fetched as well', { OTEL_METRICS_EXPORTER: 'prometheus, otlp' }, ['metrics']],
    ['nothing where all of it is off', { ...ENDPOINT, OTEL_SDK_DISABLED: 'true' }, []],
    ['all of it where it is not off', { ...ENDPOINT, OTEL_SDK_DISABLED: 'false' }, ['traces', 'metrics']],
    ['nothing of what is not used while all is off', { OTEL_SDK_DISABLED: 'true', OTEL_TRACES_SAMPLER: 'x' }, []],
  ])('%s', (_, env, expected) => {
    expect(exported(env)).toEqual(expected);
  });
});

describe('how it is exported', () => {
  it('is as OpenTelemetry says where nothing else is said', () => {
    expect(openTelemetrySettings(ENDPOINT)).toEqual({
      traces: { protocol: 'http/protobuf', sampler: SAMPLED, batch: {} },
      metrics: { protocol: 'http/protobuf', intervalMs: 60_000, timeoutMs: 30_000 },
      warnings: [],
    });
  });

  it('may differ for each of both', () => {
    const { traces, metrics } = openTelemetrySettings({
      ...ENDPOINT,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
      OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: 'http/json',
      OTEL_METRIC_EXPORT_INTERVAL: '1000',
    });
    expect(traces?.protocol).toBe('grpc');
    expect(metrics).toEqual({ protocol: 'http/json', intervalMs: 1000, timeoutMs: 1000 });
  });

  it('takes batches as large and as often as it is told', () => {
    const { traces } = openTelemetrySettings({
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
  ])('samples %s', (name, expected) => {
    const env = { ...ENDPOINT, OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: '0.25' };
    expect(openTelemetrySettings(env).traces?.sampler).toEqual(expected);
  });

  it('records all that a ratio is not given for', () => {
    const env = { ...ENDPOINT, OTEL_TRACES_SAMPLER: 'traceidratio' };
    expect(openTelemetrySettings(env).traces?.sampler).toEqual({ parentBased: false, ratio: 1 });
  });

  it('warns of ways to pass traces on that it does not have', () => {
    const { warnings } = openTelemetrySettings({ OTEL_PROPAGATORS: 'tracecontext, baggage,b3' });
    expect(warnings).toEqual([expect.stringMatching(/^OTEL_PROPAGATORS: "b3" is ignored/)]);
  });
});

describe('a variable with a value that cannot be', () => {
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
    ['OTEL_METRIC_EXPORT_INTERVAL', '99999999999'],
    ['OTEL_METRIC_EXPORT_TIMEOUT', 'never'],
  ])('%s is named when it is %s, in one line that says what can be', (name, value) => {
    const message = complaint({ [name]: value });
    expect(message).toMatch(new RegExp(`^${name}: .*accepted: `));
    expect(message).not.toContain('\n');
  });

  it.each([
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'user:s3cret@collector'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 's3cret'],
  ])('is not repeated where it may have a secret in it: %s', (name, value) => {
    expect(complaint({ [name]: value })).not.toContain('s3cret');
  });

  it('is none of those that the library takes', () => {
    const env = {
      OTEL_EXPORTER_OTLP_HEADERS: 'api-key=a%20b, Authorization = Bearer%20c=,',
      OTEL_EXPORTER_OTLP_TIMEOUT: '500',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
      OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: import.meta.filename,
    };
    expect(exported({ ...ENDPOINT, ...env })).toEqual(['traces', 'metrics']);
  });
});
