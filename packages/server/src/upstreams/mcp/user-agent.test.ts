import { describe, expect, it } from 'vitest';
import { client, eras, relayTests } from '../../../testing/relay.ts';
import { startTestService } from '../../../testing/service.ts';
import { USER_AGENT } from '../../telemetry/version.ts';

const { register, upstreamWith, onEnd } = relayTests();

describe.each(eras)('requests to a %s upstream', (era) => {
  it('have the User-Agent of the service', async () => {
    const upstream = await upstreamWith({}, { eras: [era] });
    await (await client(era, await register(upstream.url))).call('tools/call', '{"name":"a"}');
    expect(new Set(upstream.seen.map(({ headers }) => headers['user-agent']))).toEqual(new Set([USER_AGENT]));
  });

  it('have that of the forward', async () => {
    const upstream = await upstreamWith({}, { eras: [era] });
    const more = { headers: { 'User-Agent': 'ours/1' } };
    await (await client(era, await register(upstream.url, more))).call('tools/call', '{"name":"a"}');
    expect(new Set(upstream.seen.map(({ headers }) => headers['user-agent']))).toEqual(new Set(['ours/1']));
  });

  it('have that of the client if it is copied', async () => {
    const service = await startTestService({ SERVICE_FORWARD_HEADERS: 'user-agent' });
    onEnd(() => service.stop(0));
    const upstream = await upstreamWith({}, { eras: [era] });
    const caller = await client(era, await register(upstream.url, {}, service));
    await caller.call('tools/call', '{"name":"a"}', { 'user-agent': 'agent/2' });
    expect(upstream.seen.findLast(({ method }) => method === 'tools/call')?.headers['user-agent']).toBe('agent/2');
  });
});
