import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { InProcessServers, inProcessKind } from '../packages/server/src/upstreams/fixtures/in-process-kind.ts';
import { startWorkingService } from '../packages/server/src/upstreams/grpc/fixtures/working-service.ts';
import { KINDS } from '../packages/server/src/upstreams/kinds.ts';
import { InteractiveClient } from '../packages/server/testing/interactive-client.ts';
import { samplesOf } from '../packages/server/testing/prometheus-text.ts';
import { client as clientOf, eras } from '../packages/server/testing/relay.ts';
import { taskClient } from '../packages/server/testing/task-client.ts';
import { eventsAt } from '../packages/server/testing/tool-call-events.ts';
import {
  type EvaluatedService,
  errorOf,
  evaluator,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';
import { post, type RawClient, reply } from './fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from './fixtures/raw-upstream.ts';

// What all kinds of upstreams have in common: those that the service has, and one that a test adds.

/** Calls of the tool `work` at an upstream, which end when the test does that. */
interface Work {
  readonly count: () => number;
  end(text: string): void;
}

/** An upstream with the tools `echo`, which returns its argument `text`, and `work`. */
interface Served {
  readonly work: Work;
  /** Removes what executes the tools. */
  remove(): Promise<unknown>;
  close(): unknown;
}

const servers = new InProcessServers();
let evaluated: EvaluatedService;
beforeAll(async () => {
  const env = { SERVICE_TASK_AUTO_AFTER_MS: '50', SERVICE_BRIDGE_GRPC_TIMEOUT_MS: '60000' };
  evaluated = await startEvaluatedService(env, [], undefined, [...KINDS, inProcessKind(servers)]);
}, 120_000);
afterAll(() => evaluated.close());

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Calls in progress, oldest first. */
class Pending implements Work {
  readonly ends: ((text: string) => void)[] = [];
  readonly count = () => this.ends.length;
  end(text: string): void {
    this.ends.shift()?.(text);
  }
}

async function serveMcp(namespace: string): Promise<Served> {
  const work = new Pending();
  const upstream = await startRawUpstream({
    scripts: {
      'tools/list': toolList(toolText('echo'), toolText('work')),
      'tools/call': ({ params }) => {
        if (params.name === 'echo') return textResultText(String(Object(params.arguments).text));
        return new Promise((resolve) => void work.ends.push((text) => resolve(textResultText(text))));
      },
    },
  });
  await evaluated.service.register('forwards', { name: namespace, address: upstream.url, namespace });
  return { work, remove: () => evaluated.service.manage('DELETE', `/forwards/${namespace}`), close: upstream.close };
}

async function serveGrpc(namespace: string): Promise<Served> {
  const work = new Pending();
  const service = await startWorkingService({
    tool(call) {
      const { text } = call.request.arguments;
      if (text !== undefined) call.reply([text]);
      else work.ends.push((result) => call.reply([result]));
    },
  });
  const { manage, register } = evaluated.service;
  await manage('POST', '/services', {
    name: namespace,
    serviceType: 'multi-capability',
    host: '127.0.0.1',
    port: service.port,
  });
  for (const name of ['echo', 'work']) {
    await register('tools', {
      name,
      namespace,
      description: 'd',
      uri: 'own://x',
      toolType: namespace,
      input_schema: {},
    });
  }
  return {
    work,
    remove: () =>
      Promise.all(['echo', 'work'].map((name) => manage('DELETE', `/tools/${name}?namespace=${namespace}`))),
    close: () => service.close(),
  };
}

async function serveInProcess(namespace: string): Promise<Served> {
  await evaluated.service.register('forwards', { name: namespace, address: 'test:one', namespace });
  const work: Work = {
    count: () => servers.working.size,
    end(text) {
      const [oldest] = servers.working;
      oldest?.(text);
    },
  };
  const remove = () => evaluated.service.manage('DELETE', `/forwards/${namespace}`);
  return { work, remove, close: () => servers.working.clear() };
}

const KINDS_OF_UPSTREAMS = [
  { kind: 'an MCP server', serve: serveMcp, metric: 'mcp_client_operation_duration_seconds_count' },
  { kind: 'a capability service', serve: serveGrpc, metric: 'rpc_client_call_duration_seconds_count' },
  { kind: 'a kind that a test adds', serve: serveInProcess, metric: 'mcp_client_operation_duration_seconds_count' },
];

describe.each(KINDS_OF_UPSTREAMS)('tools of $kind', ({ serve, metric }) => {
  let namespaces = 0;

  /** A namespace with the tools. */
  async function setUp() {
    const name = `${serve.name.toLowerCase()}-${++namespaces}`;
    const { service } = evaluated;
    await service.register('namespaces', { name });
    const served = await serve(name);
    closers.push(async () => {
      await evaluated.apply();
      await service.manage('DELETE', `/namespaces/${name}?cascade=true`);
      await served.close();
    });
    const url = service.url(name);
    const events = async () => (await eventsAt(service, url)).map(({ eventType }) => eventType);
    return { ...served, name, url, service, events };
  }
  const echo = (client: RawClient) => client.call('tools/call', '{"name":"echo","arguments":{"text":"hello"}}');
  const startWork = (client: RawClient) => client.call('tools/call', '{"name":"work","arguments":{}}');

  describe.each(eras)('for a %s client', (era) => {
    it('are listed and called, with events and metrics', async () => {
      const { url, service, events } = await setUp();
      const client = await clientOf(era, url);
      expect(reply(await client.call('tools/list'))).toMatch(/"name":"echo".*"name":"work"/);
      const sent = async () => {
        const samples = samplesOf(await (await fetch(`${service.management}/metrics`)).text());
        return samples.filter(({ name }) => name === metric).reduce((sum, { value }) => sum + value, 0);
      };
      const before = await sent();
      expect(JSON.parse(reply(await echo(client))).result).toMatchObject({
        content: [{ type: 'text', text: 'hello' }],
      });
      expect(await events()).toEqual(['STARTED', 'COMPLETED']);
      expect(await sent()).toBe(before + 1);
    });

    it('are called only if evaluators allow it', async () => {
      const { url, name, events } = await setUp();
      await evaluated.apply(evaluator('gate', { namespace: name, llmOutput: 'block:no' }));
      expect(errorOf(await echo(await clientOf(era, url)))).toMatchObject({ code: -32001, message: 'no' });
      expect(await events()).toEqual(['FAILED']);
    });

    it('answer a call in progress although they are removed meanwhile, and no later one', async () => {
      const { url, work, remove, events } = await setUp();
      const client = await clientOf(era, url);
      const response = startWork(client);
      await expect.poll(work.count).toBe(1);
      const removed = remove();
      work.end('done');
      expect(reply(await response)).toContain('"text":"done"');
      await removed;
      expect(errorOf(await echo(client))).toMatchObject({ message: 'tool not found: echo' });
      expect(await events()).toEqual(['STARTED', 'COMPLETED']);
    });
  });

  it('are canceled by a legacy client that says so, and by a modern one that disconnects', async () => {
    const { url, work, service } = await setUp();
    const outcomes = async () =>
      (await eventsAt(service, url)).flatMap((event) => ('outcome' in event ? event.outcome : []));
    const legacy = await clientOf('legacy', url);
    const canceled = startWork(legacy);
    await expect.poll(work.count).toBe(1);
    await post(url, '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}', legacy.headers);
    await expect.poll(outcomes).toEqual(['canceled']);
    expect((await canceled).text).toBe('');

    const calls = work.count();
    const response = new InteractiveClient(url).send();
    await expect.poll(work.count).toBe(calls + 1);
    response.disconnect();
    await expect.poll(outcomes).toEqual(['canceled', 'canceled']);
  });

  it('become tasks when they take long and have the label for that', async () => {
    const { url, name, work, service, events } = await setUp();
    const { data } = await service.manage('GET', `/tools/work?namespace=${name}`);
    const { forward: _, upstreamName: __, shadowed: ___, ...entry } = Object(data);
    const labeled = { ...entry, labels: { ...entry.labels, 'service.task': 'auto' } };
    expect((await service.manage('PUT', `/tools/work?namespace=${name}`, labeled)).status).toBe(200);
    const client = taskClient(url);
    const taskId = await client.create('work');
    expect(work.count()).toBe(1);
    work.end('after all');
    expect((await client.until(taskId, 'completed')).text).toContain('"text":"after all"');
    expect(await events()).toEqual(['STARTED', 'COMPLETED']);
  });
});
