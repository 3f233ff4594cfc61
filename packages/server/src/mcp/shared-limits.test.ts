import { afterAll, beforeAll, expect, it } from 'vitest';
import { liveTests } from '../../testing/live-tests.ts';
import type { LiveUpstream } from '../../testing/live-upstream.ts';
import { startTestService, type TestService } from '../../testing/service.ts';
import { type SessionClient, sessionClient } from '../../testing/session-client.ts';

const { live } = liveTests();
let service: TestService;
beforeAll(async () => {
  service = await startTestService({ SERVICE_MAX_RESUMABLE_BYTES: String(1024 * 1024) });
});
afterAll(() => service.stop(0));

/** Leaves a call whose response of 250 kB arrives later. Returns the id of its last event before that. */
async function leaveCall(client: SessionClient, upstream: LiveUpstream, id: string): Promise<string> {
  const reading = client.call(id, '"progressToken":1');
  const call = await upstream.calls.next();
  call.begin();
  call.progress(1);
  await reading.message(0);
  reading.disconnect();
  await reading.ended;
  call.end('x'.repeat(250_000));
  return reading.lastId;
}

it('resumable streams of one namespace make room for the response of another', async () => {
  const [many, few] = [await live({}, service), await live({}, service)];
  const [client, other] = [await sessionClient(many.url), await sessionClient(few.url)];
  const waiting = await leaveCall(other, few.upstream, '7');
  const left: string[] = [];
  for (let id = 1; id <= 6; id++) left.push(await leaveCall(client, many.upstream, String(id)));
  const again = other.listen(waiting);
  expect(await again.ended).toBe(true);
  expect(JSON.parse(again.messages[0] ?? '')).toMatchObject({ id: 7, result: { content: [{ type: 'text' }] } });
  const lost = client.listen(left[0]);
  expect(await lost.ended).toBe(true);
  expect(JSON.parse(lost.messages[0] ?? '')).toEqual({
    jsonrpc: '2.0',
    id: 1,
    error: { code: -32603, message: 'the response is no longer stored' },
  });
  const latest = client.listen(left.at(-1));
  expect(await latest.ended).toBe(true);
  expect(JSON.parse(latest.messages[0] ?? '')).toMatchObject({ id: 6, result: {} });
});
