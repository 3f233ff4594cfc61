import { once } from 'node:events';
import { createServer } from 'node:net';
import { Client, credentials, type Metadata, type Server, status } from '@grpc/grpc-js';
import { expect, type TestContext, test } from 'vitest';
import { answering, Refusal, startCapabilityService } from '../../../testing/capability-service.ts';
import { loadProtocols, type Protocols } from './channel.ts';
import { DEAD_PORT } from './fixtures/work-tests.ts';
import type { HealthProbeReply } from './generated/health/HealthProbeReply.ts';
import type { HealthProbeRequest__Output } from './generated/health/HealthProbeRequest.ts';
import { type Finding, probeHealth } from './health.ts';
import { entryAt } from './service-entry.fixture.ts';

const saying = (found: HealthProbeReply['status']) =>
  answering<HealthProbeRequest__Output, HealthProbeReply>(() => ({ status: found }));

const refusing = (code: status, details: string) =>
  answering<HealthProbeRequest__Output, HealthProbeReply>(() => {
    throw new Refusal(code, details);
  });

type Context = Pick<TestContext, 'onTestFinished'>;

async function started(context: Context, add: (server: Server, protocols: Protocols) => void): Promise<number> {
  const service = await startCapabilityService(add);
  context.onTestFinished(() => service.close());
  return service.port;
}

async function probed(
  context: Context,
  port: number,
  { id, timeoutMs = 5_000 }: { id?: string; timeoutMs?: number } = {},
): Promise<Finding> {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  context.onTestFinished(() => client.close());
  const { signal } = new AbortController();
  return probeHealth(client, loadProtocols(), entryAt(port, { id }), signal, { timeoutMs });
}

test('a service that has started is healthy', async (context) => {
  const port = await started(context, (server, { healthProbe }) =>
    server.addService(healthProbe, { Probe: saying('STARTED'), GetStatus: saying('STOPPED') }),
  );
  expect(await probed(context, port)).toEqual({ health: 'healthy' });
});

test.for([
  ['STOPPED', 'STOPPED'],
  ['STOPPING', 'STOPPING'],
  ['STARTING', 'STARTING'],
  [7, '7'],
] as const)('one whose status is %s is unhealthy, and it is said why', async ([found, shown], context) => {
  const port = await started(context, (server, { healthProbe }) =>
    server.addService(healthProbe, { Probe: answering(() => ({ status: found })) }),
  );
  expect(await probed(context, port)).toEqual({ health: 'unhealthy', reason: `its status is ${shown}` });
});

test.for([
  ['STARTED', 'healthy'],
  ['STOPPING', 'unhealthy'],
] as const)('one that knows no Probe is asked by GetStatus: %s is %s', async ([found, health], context) => {
  const port = await started(context, (server, { healthProbe }) =>
    server.addService(healthProbe, { GetStatus: saying(found) }),
  );
  expect(await probed(context, port)).toMatchObject({ health });
});

test('one that knows neither is healthy, since it answers', async (context) => {
  const port = await started(context, (server, { toolInvoker }) => server.addService(toolInvoker, {}));
  expect(await probed(context, port)).toEqual({ health: 'healthy' });
});

test('one that fails to say how it is has answered, and is not well', async (context) => {
  const port = await started(context, (server, { healthProbe }) =>
    server.addService(healthProbe, { Probe: refusing(status.INTERNAL, 'no\ndatabase'), GetStatus: saying('STARTED') }),
  );
  expect(await probed(context, port)).toEqual({ health: 'unhealthy', reason: 'INTERNAL: no database' });
});

test('one where nobody listens is down', async (context) => {
  expect(await probed(context, DEAD_PORT)).toEqual({
    health: 'down',
    reason: expect.stringMatching(/^UNAVAILABLE: .*ECONNREFUSED 127\.0\.0\.1:\d+$/),
  });
});

test('one that says it is unavailable is down, and not asked again at once', async (context) => {
  let asked = 0;
  const Probe = answering<HealthProbeRequest__Output, HealthProbeReply>(() => {
    asked++;
    throw new Refusal(status.UNAVAILABLE, 'warming up');
  });
  const port = await started(context, (server, { healthProbe }) => server.addService(healthProbe, { Probe }));
  expect(await probed(context, port)).toEqual({ health: 'down', reason: 'UNAVAILABLE: warming up' });
  expect(asked).toBe(1);
});

test('one that does not speak gRPC is down', async (context) => {
  const server = createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(0, '127.0.0.1');
  context.onTestFinished(() => void server.close());
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  expect(await probed(context, port)).toMatchObject({ health: 'down' });
});

test('one that does not answer in time is down', async (context) => {
  const port = await started(context, (server, { healthProbe }) => server.addService(healthProbe, { Probe: () => {} }));
  expect(await probed(context, port, { timeoutMs: 50 })).toEqual({
    health: 'down',
    reason: expect.stringMatching(/^DEADLINE_EXCEEDED: /),
  });
});

test('it is asked by the id of its entry, else by the name, each time under a request id of its own', async (context) => {
  const asked: string[] = [];
  const requestIds = new Set<string>();
  const port = await started(context, (server, { healthProbe }) =>
    server.addService(healthProbe, {
      Probe: answering(({ id }: HealthProbeRequest__Output, metadata: Metadata) => {
        asked.push(id);
        requestIds.add(String(metadata.get('x-service-request-id')));
        return { status: 'STARTED' };
      }),
    }),
  );
  await probed(context, port, { id: '0042' });
  await probed(context, port);
  await probed(context, port, { id: 'half \ud800' });
  expect(asked).toEqual(['0042', 'weather', 'half \ufffd']);
  expect([...requestIds].filter((id) => /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(id))).toHaveLength(3);
});
