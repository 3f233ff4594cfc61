import { expect, it, onTestFinished, vi } from 'vitest';
import { startProxy } from '../../testing/egress-proxy.ts';
import { startOtlpReceiver } from '../../testing/otlp-receiver.ts';
import { startTestService } from '../../testing/service.ts';

it.each(['http/json', 'http/protobuf'] as const)(
  'traces and metrics are exported through the proxy of the environment, as %s',
  async (protocol) => {
    const receiver = await startOtlpReceiver(protocol);
    onTestFinished(receiver.close);
    const proxy = await startProxy({
      hosts: { 'otlp.test': Number(new URL(receiver.url).port) },
      credentials: `Basic ${btoa('user:s3cret-pw')}`,
    });
    onTestFinished(proxy.close);
    const exported = {
      OTEL_TRACES_EXPORTER: 'otlp',
      OTEL_METRICS_EXPORTER: 'otlp',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://otlp.test',
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
    };
    // The exporters read the environment of the process.
    for (const [name, value] of Object.entries(exported)) vi.stubEnv(name, value);
    onTestFinished(() => void vi.unstubAllEnvs());
    const service = await startTestService({
      ...exported,
      HTTP_PROXY: `http://user:s3cret-pw@127.0.0.1:${proxy.port}`,
    });
    await fetch(service.url(), {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: '{"jsonrpc":"2.0","id":1,"method":"ping"}',
    });
    await service.stop();
    expect(new Set(proxy.requests)).toEqual(
      new Set(['POST http://otlp.test/v1/traces', 'POST http://otlp.test/v1/metrics']),
    );
    expect(new Set(receiver.requests.map(({ path }) => path))).toEqual(new Set(['/v1/traces', '/v1/metrics']));
    expect(service.log.join('\n')).not.toContain('s3cret');
  },
);
