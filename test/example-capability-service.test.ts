import { createServer } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ExampleService, startExample } from './fixtures/example-service.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { listen } from './fixtures/http-server.ts';
import { connect, type SdkClient } from './fixtures/sdk-client.ts';

// The example in examples/capability-service with a real gateway, as an agent sees it.

let gateway: Gateway;
let example: ExampleService;
let agent: SdkClient;
let web: string;
/** Calls without a response and code without an end. They take seconds: other tests run meanwhile. */
let withoutOutput: Promise<CallOutput>;
let endless: Promise<CallOutput>;

const site = createServer((request, response) => {
  const { url, headers } = request;
  if (url === '/hello') response.end(`hello, ${headers.authorization ?? 'stranger'}`);
  else if (url === '/away') response.writeHead(302, { location: '/hello' }).end();
  else if (url === '/long') response.end('x'.repeat(300_000));
  else if (url !== '/silent') response.writeHead(404).end('no such page');
});

beforeAll(async () => {
  const port = await listen(site, 0);
  web = `127.0.0.1:${port}`;
  gateway = await startGateway();
  example = startExample({
    SLUICE_HOST: gateway.management(),
    SAMPLE_HTTP_ORIGINS: `https://localhost:${port}, http://${web}`,
  });
  await example.line(/ registered at /);
  agent = await connect(gateway.url('sample'), 'legacy');
  withoutOutput = get(`http://${web}/silent`);
  // Idle as long as only the end of its process can wake it.
  const blockForever = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);';
  endless = run(`console.log(process.pid); ${blockForever}`, { timeout: 4_000 });
});
afterAll(async () => {
  await agent?.close();
  await example?.close();
  await gateway?.close();
  site.closeAllConnections();
  site.close();
});

interface CallOutput {
  readonly isError: boolean | undefined;
  readonly text: string;
}

/** Calls a tool; returns all texts of its result as one. */
async function call(name: string, args: object, options: Parameters<SdkClient['client']['callTool']>[1] = {}) {
  const { isError, content } = await agent.client.callTool({ name, arguments: { ...args } }, options);
  const text = content.map((block) => (block.type === 'text' ? block.text : '')).join('');
  return { isError, text } satisfies CallOutput;
}

const run = (code: string, more = {}): Promise<CallOutput> => call('run-javascript', { code, ...more });
const get = (url: string): Promise<CallOutput> => call('http-get', { url });

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe('tools', () => {
  it('are served in its namespace, and the gateway finds it healthy', async () => {
    const { tools } = await agent.client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(['echo', 'http-get', 'run-javascript']);
    const healths = ['healthy', 'healthy'].map((health) => expect.objectContaining({ health }));
    const services = async () => (await gateway.api('GET', '/api/v1/services')).body;
    await expect.poll(services).toMatchObject({ data: healths });
  });

  it('echo returns its input, without credentials', async () => {
    expect(await call('echo', { message: 'hi', number: 3, service_auth_authorization: 'Bearer secret' })).toEqual({
      isError: false,
      text: '{"message":"hi","number":"3"}',
    });
  });

  it('http-get reads allowed URLs', async () => {
    expect(await get(`http://${web}/hello`)).toEqual({ isError: false, text: 'hello, stranger' });
    expect(await get(`http://${web}/none`)).toEqual({
      isError: true,
      text: `${web} responded with status 404: no such page`,
    });
  });

  it('http-get reaches no other host, port or scheme, and follows no redirect', async () => {
    const [, port] = web.split(':');
    for (const url of [
      `http://${gateway.management()}/healthz`,
      // Only https: a secret must not be readable on the network.
      `http://localhost:${port}/hello`,
      `https://${web}/hello`,
      'http://127.0.0.1/',
    ]) {
      const { origin } = new URL(url);
      expect(await get(url)).toEqual({ isError: true, text: expect.stringContaining(`${origin} is not allowed`) });
    }
    for (const url of ['file:///etc/hostname', 'data:text/plain,x', 'no url', `http://a:b@${web}/hello`]) {
      expect(await get(url)).toEqual({ isError: true, text: expect.stringMatching(/^invalid url: /) });
    }
    expect(await get(`http://${web}/away`)).toMatchObject({
      isError: true,
      text: `${web} responded with status 302: `,
    });
  });

  it('http-get enforces its size limit', async () => {
    const text = 'response exceeds 262144 bytes';
    expect(await get(`http://${web}/long`)).toEqual({ isError: true, text });
  });

  it('http-get sends the secret that an operator has provisioned', async () => {
    const provision = { name: 'site', secrets: 'Bearer of-site' };
    const { body } = await gateway.api('POST', '/api/v1/services/sample-tools/provisions', provision);
    const secretsURI = /memory:[^"]+/.exec(JSON.stringify(body))?.[0];
    const tool = { uri: 'sample://http-get', toolType: 'sample-tools', input_schema: { type: 'object' } };
    const entry = { ...tool, name: 'site', description: '', namespace: 'sample' };
    await gateway.api('POST', '/api/v1/tools', { ...entry, secretsURI });
    expect(await call('site', { url: `http://${web}/hello` })).toMatchObject({ text: 'hello, Bearer of-site' });
    const plain = `http://localhost:${web.split(':')[1]}`;
    const text = expect.stringContaining(`${plain} is not allowed`);
    expect(await call('site', { url: `${plain}/hello` })).toEqual({ isError: true, text });
    await gateway.api('PUT', '/api/v1/tools/site?namespace=sample', { ...entry, secretsURI: 'memory://none' });
    expect(await call('site', { url: `http://${web}/hello` })).toEqual({
      isError: true,
      text: 'unknown secret memory://none: provision it again',
    });
    await gateway.api('DELETE', '/api/v1/tools/site?namespace=sample');
  });
});

describe('code', () => {
  it('returns its output, which is streamed while it runs', async () => {
    const received: unknown[] = [];
    const code = 'console.log("one"); console.error("two")';
    const onprogress = ({ message }: { message?: string }) => received.push(message);
    // Two streams: the order of reads is undefined.
    const anyOrder = expect.stringMatching(/^(?:one\ntwo|two\none)\n$/);
    expect(await call('run-javascript', { code }, { onprogress })).toEqual({ isError: false, text: anyOrder });
    expect(received.toSorted()).toEqual(['RUNNING', 'one\n', 'two\n']);
  });

  it("gets its arguments and its environment, but not the service's", async () => {
    const code = 'console.log(JSON.stringify([process.argv.slice(2), process.env]))';
    const list = Array.from({ length: 11 }, (_, index) => `value ${index}`);
    const environment = { MODE: 'test' };
    expect(JSON.parse((await run(code, { arguments: list, environment })).text)).toEqual([list, environment]);
    expect(JSON.parse((await run(code, { arguments: { name: '--eval' } })).text)).toEqual([['--name=--eval'], {}]);
  });

  it('may be a module, and in Base64', async () => {
    const code = 'import { inspect } from "node:util"; console.log(await Promise.resolve(inspect("ä")))';
    expect(await run(Buffer.from(code).toString('base64'))).toEqual({ isError: false, text: "'ä'\n" });
  });

  it('that fails is an error with its output, and a failed execution in the events', async () => {
    const { isError, text } = await run('console.log("before"); throw new Error("no good")');
    expect([isError, text]).toEqual([true, expect.stringContaining('before\n')]);
    expect(text).toContain('Error: no good\n');
    const { body } = await gateway.api('GET', '/api/v1/tool-calls?limit=1&category=EXECUTION_ERROR');
    const [event] = Object(body).data;
    expect(event).toMatchObject({
      eventType: 'FAILED',
      toolName: 'code-execution/sample/javascript',
      errorCategory: 'EXECUTION_ERROR',
      errorMessage: 'the execution ended as FAILED with exit code 1',
    });
  });

  it('opens no file, whatever its environment requests', async () => {
    const environment = { NODE_OPTIONS: '--allow-fs-read=*' };
    const { isError, text } = await run('require("fs").readFileSync("/etc/hostname")', { environment });
    expect([isError, text]).toEqual([true, expect.stringMatching(/ERR_ACCESS_DENIED/)]);
  });

  it('that runs too long is terminated, with its previous output', async () => {
    const { isError, text } = await endless;
    const [pid, ...rest] = text.split('\n');
    expect([isError, rest]).toEqual([true, ['terminated: timeout of 4000 ms exceeded', '']]);
    expect(isRunning(Number(pid))).toBe(false);
  });

  it('that writes too much is terminated', async () => {
    const { isError, text } = await run('process.stdout.write("x".repeat(1_100_000)); setInterval(() => 0, 1000)');
    expect([isError, text.replace(/x+/, '')]).toEqual([true, 'terminated: output exceeds 1048576 characters\n']);
  });

  it('whose caller cancels is terminated, and others continue', async () => {
    const cancel = new AbortController();
    const pid = Promise.withResolvers<number>();
    const onprogress = ({ message = '' }) => {
      if (/^\d+\n$/.test(message)) pid.resolve(Number(message));
    };
    const code = 'console.log(process.pid); setInterval(() => 0, 1000)';
    const called = call('run-javascript', { code }, { onprogress, signal: cancel.signal });
    const child = await pid.promise;
    expect(isRunning(child)).toBe(true);
    cancel.abort('not needed any more');
    await expect(called).rejects.toThrow();
    await expect.poll(() => isRunning(child)).toBe(false);
    expect(await run('console.log("next")')).toEqual({ isError: false, text: 'next\n' });
  });

  it('is rejected while four others run, and accepted after them', async () => {
    const begun: Promise<void>[] = [];
    const cancel = new AbortController();
    const running = Array.from({ length: 4 }, () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      begun.push(promise);
      const code = 'console.log("begun"); setInterval(() => 0, 1000)';
      const onprogress = ({ message = '' }) => message === 'begun\n' && resolve();
      return call('run-javascript', { code }, { onprogress, signal: cancel.signal }).catch(() => undefined);
    });
    await Promise.all(begun);
    expect(await run('')).toEqual({ isError: true, text: expect.stringContaining('4 executions are running') });
    cancel.abort();
    await Promise.all(running);
    await expect.poll(() => run('')).toEqual({ isError: false, text: '' });
  });
});

it('http-get enforces its timeout', async () => {
  expect(await withoutOutput).toEqual({ isError: true, text: `${web}: timeout after 4000 ms` });
});
