import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { freePort } from '../../../../../test/fixtures/free-port.ts';
import { type OtlpProtocol, type OtlpReceiver, startOtlpReceiver } from '../../../testing/otlp-receiver.ts';
import { DEFAULT_LOG_FILTER } from '../../app/config/environment.ts';
import { parseOpenTelemetry } from '../../app/config/open-telemetry.ts';
import { createLogger } from '../log.ts';
import { openTracing, type Tracing } from './tracing.ts';

afterEach(() => vi.unstubAllEnvs());

interface Open {
  readonly tracing: Tracing;
  /** Records a span of this name. */
  readonly record: (name: string) => void;
  /** Messages of the log so far. */
  readonly log: readonly string[];
  /** Resolves when a new line with this message is logged. */
  readonly logged: (msg: string) => Promise<void>;
}

/** Tracing configured by the environment, which the exporters read themselves. */
async function open(env: Readonly<Record<string, string>>): Promise<Open> {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const log: string[] = [];
  const waiting = new Set<() => void>();
  const logger = createLogger(DEFAULT_LOG_FILTER, (line) => {
    log.push(JSON.parse(line).msg);
    for (const wake of [...waiting]) wake();
  });
  const { traces } = parseOpenTelemetry(process.env);
  if (!traces) throw new Error('no traces are exported');
  const tracing = await openTracing(traces, logger.target('service'));
  onTestFinished(() => tracing.close(0));
  let position = 0;
  return {
    tracing,
    log,
    record(name) {
      const span = tracing.begin({ name, role: 'internal' }, undefined);
      span.attributes.list = ['a', 'b'];
      span.end();
    },
    async logged(msg) {
      for (;;) {
        const at = log.indexOf(msg, position);
        if (at !== -1) {
          position = at + 1;
          return;
        }
        const { promise, resolve } = Promise.withResolvers<void>();
        waiting.add(resolve);
        await promise;
        waiting.delete(resolve);
      }
    },
  };
}

async function receiving(protocol?: OtlpProtocol, port?: number): Promise<OtlpReceiver> {
  const receiver = await startOtlpReceiver(protocol, port);
  onTestFinished(receiver.close);
  return receiver;
}

/** Records until an export has succeeded: on a busy machine the short export timeout may pass first. */
async function recordUntil(record: () => void, happened: () => boolean): Promise<void> {
  for (let waited = 0; !happened(); waited += 10) {
    if (waited % 1_000 === 0) record();
    await delay(10);
  }
}

const named = (name: string) => (span: { readonly name: string }) => span.name === name;
const LOST = 'exporting traces failed; spans are lost until it succeeds';
const AGAIN = 'exporting traces succeeds again';

describe.each(['http/protobuf', 'http/json', 'grpc'] as const)('traces over %s', (protocol) => {
  it('arrive unmodified', async () => {
    const receiver = await receiving(protocol);
    const { record, log } = await open({
      ...receiver.env,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-key=of-collector',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
      OTEL_SERVICE_NAME: 'edge',
    });
    record('one');
    expect(await receiver.span(named('one'))).toMatchObject({
      parentSpanId: undefined,
      kind: 'internal',
      status: 'unset',
      attributes: { list: ['a', 'b'] },
      resource: { 'service.name': 'edge', 'service.instance.id': expect.any(String) },
    });
    expect(receiver.requests[0]?.headers).toMatchObject({ 'x-key': 'of-collector' });
    expect(log).toEqual([]);
  });

  it('are lost while exports fail, which is logged once, and arrive again afterwards', async () => {
    const receiver = await receiving(protocol);
    const { record, log, logged } = await open({ ...receiver.env, OTEL_EXPORTER_OTLP_TIMEOUT: '300' });
    for (const behavior of [
      { kind: 'responds', status: 400, body: 'no' },
      { kind: 'responds', status: 500, body: 'no' },
      { kind: 'silent' },
    ] as const) {
      receiver.behavior = behavior;
      const { length } = receiver.requests;
      await recordUntil(
        () => record('lost'),
        () => receiver.requests.length > length,
      );
    }
    await logged(LOST);
    receiver.behavior = { kind: 'accepts' };
    await recordUntil(
      () => record('taken'),
      () => receiver.spans.some(named('taken')) && log.includes(AGAIN),
    );
    expect(log).toEqual([LOST, AGAIN]);
  });
});

it('survives a restart of the collector', async () => {
  const first = await receiving('http/protobuf', await freePort());
  const { record, log, logged } = await open({ ...first.env, OTEL_EXPORTER_OTLP_TIMEOUT: '300' });
  await first.close();
  record('lost');
  await logged(LOST);
  const second = await receiving('http/protobuf', Number(new URL(first.url).port));
  await recordUntil(
    () => record('taken'),
    () => second.spans.some(named('taken')) && log.includes(AGAIN),
  );
});

it('uses the endpoint for traces', async () => {
  const [all, own] = [await receiving(), await receiving()];
  const { record } = await open({ ...all.env, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${own.url}/v1/traces` });
  record('own');
  await own.span(named('own'));
  expect(all.requests).toEqual([]);
});

describe('at shutdown', () => {
  const LATE = { OTEL_BSP_SCHEDULE_DELAY: '600000' };

  it('exports ended spans, and nothing afterwards', async () => {
    const receiver = await receiving();
    const { record, tracing } = await open({ ...receiver.env, ...LATE });
    record('last');
    await tracing.close(10_000);
    expect(receiver.spans.map(({ name }) => name)).toEqual(['last']);
    record('too late');
    await tracing.close(10_000);
    expect(receiver.requests).toHaveLength(1);
  });

  it('waits at most for the grace period', async () => {
    const receiver = await receiving();
    receiver.behavior = { kind: 'silent' };
    const { record, tracing } = await open({ ...receiver.env, ...LATE });
    record('last');
    const before = performance.now();
    await tracing.close(200);
    const took = performance.now() - before;
    expect(took).toBeGreaterThan(190);
    // The library itself would wait for 10 s.
    expect(took).toBeLessThan(8_000);
    await receiver.requested(1);
  });
});
