import { createServer, type IncomingHttpHeaders } from 'node:http';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { type ExampleService, startExample } from './fixtures/example-service.ts';
import { freePort } from './fixtures/free-port.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { listen } from './fixtures/http-server.ts';
import { connect } from './fixtures/sdk-client.ts';

// Registration of the example in examples/capability-service under adverse conditions, and its shutdown.

let gateway: Gateway;
let running: ExampleService[];
beforeAll(async () => {
  const [management, mcp] = await Promise.all([freePort(), freePort()]);
  gateway = await startGateway({ management: `127.0.0.1:${management}`, mcp: `127.0.0.1:${mcp}` });
});
beforeEach(() => {
  running = [];
});
afterEach(async () => {
  for (const example of running) await example.close();
});
afterAll(() => gateway?.close());

function start(env: Readonly<Record<string, string>> = {}): ExampleService {
  const example = startExample({ SLUICE_HOST: gateway.management(), ...env });
  running.push(example);
  return example;
}

const data = async (path: string) => Object((await gateway.api('GET', `/api/v1/${path}`)).body).data;

async function echoed(): Promise<string> {
  const agent = await connect(gateway.url('sample'), 'modern');
  try {
    return await agent.callText('echo', { message: 'hi' });
  } finally {
    await agent.close();
  }
}

it('registers again at another address, and keeps members added by operators', { tags: ['slow'] }, async () => {
  const first = start();
  await first.line(/ registered at /);
  const tool = await data('tools/echo?namespace=sample');
  await gateway.api('PUT', '/api/v1/tools/echo?namespace=sample', {
    ...tool,
    labels: { team: 'a' },
    description: 'Changed',
    secretsURI: 'memory://its-own',
  });
  expect(await first.stop()).toBe(0);

  const second = start();
  const line = await second.line(/ registered at /);
  const [, address] = /^capability service at (127\.0\.0\.1:\d+), registered at /.exec(line) ?? [];
  const services = await data('services');
  expect(services).toEqual([
    expect.objectContaining({ name: 'sample-tools', serviceType: 'tool-invoker', address }),
    expect.objectContaining({
      name: 'sample-code',
      serviceType: 'code-execution-engine',
      serviceSubType: 'sample',
      languageName: 'javascript',
      address,
    }),
  ]);
  const tools: { name: string }[] = await data('tools?namespace=sample');
  expect(tools.map(({ name }) => name)).toEqual(['echo', 'http-get', 'run-javascript']);
  expect(tools[0]).toEqual({ ...tool, labels: { team: 'a' }, secretsURI: 'memory://its-own' });
  expect(await echoed()).toBe('{"message":"hi"}');
});

it('stays registered when it stops, and calls report that it is unreachable', async () => {
  const example = start();
  await example.line(/ registered at /);
  expect(await example.stop()).toBe(0);
  await expect(echoed()).rejects.toThrow(/sample-tools at 127\.0\.0\.1:\d+/);
});

it('terminates running code when it stops', { tags: ['slow'] }, async () => {
  const example = start();
  await example.line(/ registered at /);
  const agent = await connect(gateway.url('sample'), 'legacy');
  try {
    const received = Promise.withResolvers<string>();
    const onprogress = ({ message = '' }) => {
      if (message !== 'RUNNING') received.resolve(message);
    };
    const code = 'console.log(process.pid); setInterval(() => 0, 1000)';
    const called = agent.client.callTool({ name: 'run-javascript', arguments: { code } }, { onprogress });
    const pid = Number(await received.promise);
    expect(await example.stop()).toBe(0);
    expect(await called).toMatchObject({ isError: true });
    await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow('ESRCH'), { timeout: 20_000 });
  } finally {
    await agent.close();
  }
});

it('does not replace a tool of another service, nor of another instance', { tags: ['slow'] }, async () => {
  const first = start();
  await first.line(/ registered at /);
  const services = await data('services');
  const other = { name: 'http-get', description: 'Other', uri: 'http://127.0.0.1:9/mcp', toolType: 'other' };
  await gateway.api('POST', '/api/v1/tools', { ...other, input_schema: { type: 'object' }, namespace: 'taken' });
  const example = start({ SAMPLE_NAMESPACE: 'taken' });
  expect(await example.ended).toBe(1);
  expect(example.lines).toEqual([
    'namespace taken already has another tool http-get: set SAMPLE_NAMESPACE to another namespace',
  ]);
  expect(await data('tools?namespace=taken')).toMatchObject([other]);
  expect(await data('services')).toEqual(services);
  expect(await echoed()).toBe('{"message":"hi"}');
});

it('can run beside another instance under another name', { tags: ['slow'] }, async () => {
  const first = start();
  await first.line(/ registered at /);
  const second = start({ SAMPLE_NAME: 'second' });
  await second.line(/ registered at .*, namespace second$/);
  expect(await second.stop()).toBe(0);
  const services: { name: string; serviceSubType?: string }[] = await data('services');
  expect(services.map(({ name, serviceSubType }) => [name, serviceSubType])).toEqual([
    ['sample-tools', undefined],
    ['sample-code', 'sample'],
    ['second-tools', undefined],
    ['second-code', 'second'],
  ]);
  expect(await data('tools/run-javascript?namespace=second')).toMatchObject({
    toolType: 'second-code',
    uri: 'code-execution-engine://second/javascript',
  });
  expect(await echoed()).toBe('{"message":"hi"}');
});

it('reports in one line that its port is in use', { tags: ['slow'] }, async () => {
  const first = start();
  const [, address = ''] = /^capability service at (\S+),/.exec(await first.line(/ registered at /)) ?? [];
  const second = start({ SAMPLE_LISTEN: address });
  expect(await second.ended).toBe(1);
  expect(second.lines).toEqual([
    `cannot listen on ${address}: address already in use (EADDRINUSE); set SAMPLE_LISTEN to another host:port`,
  ]);
  const nowhere = start({ SAMPLE_LISTEN: 'nowhere' });
  expect(await nowhere.ended).toBe(1);
  expect(nowhere.lines).toEqual([
    expect.stringMatching(/^cannot listen on nowhere: .*set SAMPLE_LISTEN to another host:port$/),
  ]);
});

it('reports an invalid origin in one line', { tags: ['slow'] }, async () => {
  for (const entry of ['api.example.com', 'http://localhost:8123/path', 'ftp://localhost']) {
    const example = start({ SAMPLE_HTTP_ORIGINS: `https://api.example.com ${entry}` });
    expect(await example.ended).toBe(1);
    expect(example.lines).toEqual([expect.stringContaining(`invalid origin ${entry} in SAMPLE_HTTP_ORIGINS`)]);
  }
});

it('waits for a gateway that is not running yet', { tags: ['slow'] }, async () => {
  await gateway.kill();
  const example = start();
  await example.line(/^Sluice at http:\S+ is unreachable, retrying in 2 s: .*ECONNREFUSED/);
  await gateway.restart();
  await example.line(/ registered at /);
  expect(await echoed()).toBe('{"message":"hi"}');
});

it('can be stopped while it waits', { tags: ['slow'] }, async () => {
  const example = start({ SLUICE_HOST: `127.0.0.1:${await freePort()}` });
  await example.line(/ is unreachable/);
  expect(await example.stop()).toBe(0);
  expect(example.lines).toHaveLength(1);
});

it('does not start a debugger on SIGUSR1', { tags: ['slow'] }, async () => {
  const example = start({ SLUICE_HOST: `127.0.0.1:${await freePort()}` });
  await example.line(/ is unreachable/);
  example.signal('SIGUSR1');
  expect(await example.stop()).toBe(0);
  expect(example.lines).toHaveLength(1);
});

it('sends its token, and exits when it is rejected, without revealing it', async () => {
  const requested: IncomingHttpHeaders[] = [];
  const proxy = createServer(({ headers }, response) => {
    requested.push(headers);
    response.writeHead(requested.length === 1 ? 302 : 401, { location: '/login' }).end('<h1>Log in</h1>');
  });
  const host = `127.0.0.1:${await listen(proxy, 0)}`;
  try {
    for (const status of [302, 401]) {
      const example = start({ SLUICE_HOST: host, SLUICE_TOKEN: 'secret-token' });
      expect(await example.ended).toBe(1);
      expect(example.lines).toEqual([
        `GET /api/v1/tools/echo?namespace=sample: status ${status}: <h1>Log in</h1> (check SLUICE_TOKEN)`,
      ]);
    }
    expect(requested.map(({ authorization }) => authorization)).toEqual(['Bearer secret-token', 'Bearer secret-token']);
  } finally {
    proxy.close();
  }
});
