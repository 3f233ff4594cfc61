import { once } from 'node:events';
import { createServer } from 'node:net';
import { Client, credentials, type Metadata, type Server, status } from '@grpc/grpc-js';
import { expect, type TestContext, test } from 'vitest';
import { StatusError, startCapabilityService, unaryHandler } from '../../../testing/capability-service.ts';
import { loadProtocols, type Protocols } from './channels.ts';
import { UNUSED_PORT } from './fixtures/operation-tests.ts';
import type { HealthProbeReply } from './generated/health/HealthProbeReply.ts';
import type { HealthProbeRequest__Output } from './generated/health/HealthProbeRequest.ts';
import { callUnary } from './grpc-client.ts';
import { type ProbeResult, probeHealth } from './health.ts';
import { entryAt } from './service-entry.fixture.ts';

const saying = (found: HealthProbeReply['status']) =>
  unaryHandler<HealthProbeRequest__Output, HealthProbeReply>(() => ({ status: found }));

const refusing = (code: status, details: string) =>
  unaryHandler<HealthProbeRequest__Output, HealthProbeReply>(() => {
    throw new StatusError(code, details);
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
): Promise<ProbeResult> {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  context.onTestFinished(() => client.close());
  const { signal } = new AbortController();
  const grpc = { channels: { get: () => client }, protocols: loadProtocols(), callUnary };
  return probeHealth(grpc, entryAt(port, { id }), signal, { timeoutMs });
}

test('a started service is healthy', async (context) => {
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
] as const)('a service with status %s is unhealthy, with the reason', async ([found, text], context) => {
  const port = await started(context, (server, { healthProbe }) =>
    server.addService(healthProbe, { Probe: unaryHandler(() => ({ status: found })) }),
  );
  expect(await probed(context, port)).toEqual({ health: 'unhealthy', reason: `status ${text}` });
});

test.for([
  ['STARTED', 'healthy'],
  ['STOPPING', 'unhealthy'],
] as const)('a service without Probe is probed with GetStatus: %s is %s', async ([found, health], context) => {
  const port = await started(context, (server, { healthProbe }) =>
    server.addService(healthProbe, { GetStatus: saying(found) }),
  );
  expect(await probed(context, port)).toMatchObject({ health });
});

test('a service without both methods is healthy', async (context) => {
  const port = await started(context, (server, { toolInvoker }) => server.addService(toolInvoker, {}));
  expect(await probed(context, port)).toEqual({ health: 'healthy' });
});

test('a service whose probe fails is unhealthy', async (context) => {
  const port = await started(context, (server, { healthProbe }) =>
    server.addService(healthProbe, { Probe: refusing(status.INTERNAL, 'no\ndatabase'), GetStatus: saying('STARTED') }),
  );
  expect(await probed(context, port)).toEqual({ health: 'unhealthy', reason: 'INTERNAL: no database' });
});

test('a service that refuses the connection is down', async (context) => {
  expect(await probed(context, UNUSED_PORT)).toEqual({
    health: 'down',
    reason: expect.stringMatching(/^UNAVAILABLE: .*ECONNREFUSED 127\.0\.0\.1:\d+$/),
  });
});

test('a service that is UNAVAILABLE is down and not retried', async (context) => {
  let probes = 0;
  const Probe = unaryHandler<HealthProbeRequest__Output, HealthProbeReply>(() => {
    probes++;
    throw new StatusError(status.UNAVAILABLE, 'warming up');
  });
  const port = await started(context, (server, { healthProbe }) => server.addService(healthProbe, { Probe }));
  expect(await probed(context, port)).toEqual({ health: 'down', reason: 'UNAVAILABLE: warming up' });
  expect(probes).toBe(1);
});

test('a server that does not speak gRPC is down', async (context) => {
  const server = createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(0, '127.0.0.1');
  context.onTestFinished(() => void server.close());
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  expect(await probed(context, port)).toMatchObject({ health: 'down' });
});

test('a service that does not answer in time is down', async (context) => {
  const port = await started(context, (server, { healthProbe }) => server.addService(healthProbe, { Probe: () => {} }));
  expect(await probed(context, port, { timeoutMs: 50 })).toEqual({
    health: 'down',
    reason: expect.stringMatching(/^DEADLINE_EXCEEDED: /),
  });
});

test('a probe has the id of the entry, else its name, and a request id of its own', async (context) => {
  const probes: string[] = [];
  const requestIds = new Set<string>();
  const port = await started(context, (server, { healthProbe }) =>
    server.addService(healthProbe, {
      Probe: unaryHandler(({ id }: HealthProbeRequest__Output, metadata: Metadata) => {
        probes.push(id);
        requestIds.add(String(metadata.get('x-service-request-id')));
        return { status: 'STARTED' };
      }),
    }),
  );
  await probed(context, port, { id: '0042' });
  await probed(context, port);
  await probed(context, port, { id: 'half \ud800' });
  expect(probes).toEqual(['0042', 'weather', 'half \ufffd']);
  expect([...requestIds].filter((id) => /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(id))).toHaveLength(3);
});
