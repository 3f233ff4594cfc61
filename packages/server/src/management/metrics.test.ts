import { metrics as metricsOutput } from '@sluice/contract';
import { expect, onTestFinished, test } from 'vitest';
import { post } from '../../../../test/fixtures/raw-client.ts';
import { startTestService } from '../../testing/service.ts';

/** A service and the values of its counters. */
async function startCounted() {
  const service = await startTestService();
  onTestFinished(() => service.stop());
  const read = async () => {
    const answer = await fetch(`${service.management}/api/v1/metrics`, { headers: { connection: 'close' } });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json']);
    const { data, error }: { data: unknown; error: unknown } = Object(await answer.json());
    expect(error).toBeNull();
    return metricsOutput.parse(data);
  };
  return { service, read };
}

test('reading the counters does not change them', async () => {
  const { service, read } = await startCounted();
  await post(service.url(), '{"jsonrpc":"2.0","id":1,"method":"ping"}');
  const first = await read();
  expect(first.filters.cors?.duration.count).toBe(1);
  expect(await read()).toEqual(first);
});

test('counters start at 0 with each service', async () => {
  const first = await startCounted();
  await post(first.service.url(), '{"jsonrpc":"2.0","id":1,"method":"ping"}');
  const second = await startCounted();
  expect((await first.read()).filters.cors?.duration.count).toBe(1);
  expect((await second.read()).filters.cors?.duration.count).toBe(0);
});
