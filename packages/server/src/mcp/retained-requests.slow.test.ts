import { queryObjects } from 'node:v8';
import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { beforeEach, describe, expect, it } from 'vitest';
import { InteractiveClient, inputRequired } from '../../testing/interactive-client.ts';
import { liveTests } from '../../testing/live-tests.ts';
import { startTestService } from '../../testing/service.ts';
import { sessionClient } from '../../testing/session-client.ts';
import { McpExchange } from './exchange.ts';

const { live, onEnd } = liveTests();

const CALLS = 20;
/** A connection may still have the last request. */
const SPARE = CALLS / 2;

/** The number of exchanges in memory, garbage excluded. */
const exchanges = () => Number(queryObjects(McpExchange, { format: 'count' }));
/** The number of large bodies. */
const bodies = () => Number(queryObjects(ChunkBuffer, { format: 'count' }));

let before = 0;
let bodiesBefore = 0;
beforeEach(() => {
  before = exchanges();
  bodiesBefore = bodies();
});

describe('the request of a call is not retained once it has its response', () => {
  it('while the call is suspended', async () => {
    const { upstream, url } = await live();
    for (let number = 0; number < CALLS; number++) {
      const more = `"arguments":{"text":"${'x'.repeat(300_000)}"}`;
      const first = new InteractiveClient(url).send({ more });
      const call = await upstream.calls.next();
      call.begin();
      call.request('7', 'roots/list');
      await inputRequired(first);
    }
    expect(upstream.calls.all).toHaveLength(CALLS);
    await expect.poll(exchanges).toBeLessThan(before + SPARE);
    await expect.poll(bodies).toBeLessThan(bodiesBefore + SPARE);
  });

  it('while the call continues for a client of a session that has disconnected', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    for (let number = 0; number < CALLS; number++) {
      const reading = client.call(`"${number}"`, '"progressToken":"p"');
      const call = await upstream.calls.next();
      call.begin();
      call.progress(1);
      await reading.head;
      reading.disconnect();
      await reading.ended;
    }
    expect(upstream.calls.all).toHaveLength(CALLS);
    await expect.poll(exchanges).toBeLessThan(before + SPARE);
  });

  it('while the call is a task', async () => {
    const on = await startTestService({ SERVICE_TASK_AUTO_AFTER_MS: '1' });
    onEnd(() => on.stop(0));
    const { upstream, url } = await live({}, on);
    const [, namespace = ''] = new URL(url).pathname.split('/');
    const { data } = await on.manage('GET', `/tools/work?namespace=${namespace}`);
    const { forward: _, upstreamName: __, shadowed: ___, ...entry } = Object(data);
    const changed = { ...entry, labels: { 'service.task': 'auto' } };
    expect((await on.manage('PUT', `/tools/work?namespace=${namespace}`, changed)).status).toBe(200);
    const client = new InteractiveClient(url, '{"extensions":{"io.modelcontextprotocol/tasks":{}}}');
    for (let number = 0; number < CALLS; number++) {
      const reading = client.send();
      expect(await reading.message(0)).toContain('"resultType":"task"');
      await upstream.calls.next();
    }
    expect(upstream.calls.all).toHaveLength(CALLS);
    await expect.poll(exchanges).toBeLessThan(before + SPARE);
  });
});
