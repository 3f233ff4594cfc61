import { once } from 'node:events';
import { request } from 'node:http';
import { describe, expect, onTestFinished, test } from 'vitest';
import { MODERN } from '../../../../../test/fixtures/raw-client.ts';
import { sessionClient } from '../../../testing/session-client.ts';
import { callOfRun, reading, STREAMS, setUp, told } from './fixtures/code-tests.ts';
import { BEGUN_AND_COMPLETED, begunAndFailed } from './fixtures/work-tests.ts';

const MODERN_META = `"io.modelcontextprotocol/protocolVersion":"${MODERN}","io.modelcontextprotocol/clientCapabilities":{}`;
const MODERN_HEADERS = { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': 'run' };

test('code of a legacy client that has left runs on to its end', async () => {
  const { engine, service, url } = await setUp();
  const answer = reading(url, '"progressToken":1');
  const execution = await engine.next();
  let cancelled = false;
  void execution.cancelled.then(() => {
    cancelled = true;
  });
  execution.reply({ outputType: 'STATUS', status: 'RUNNING' });
  await answer.message(0);
  answer.leave();
  // More than a connection that nobody reads takes.
  const chunk = 'x'.repeat(1024 * 1024);
  for (let number = 0; number < 8; number++) {
    if (!execution.reply({ outputType: 'COMPLETION', status: 'RUNNING', content: [chunk] })) await execution.drained();
  }
  execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['last'] });
  expect(cancelled).toBe(false);
  execution.end();
  await expect.poll(() => told(service)).toMatchObject([{}, { ...BEGUN_AND_COMPLETED[1], content: ['last'] }]);
});

describe('cancellation', () => {
  test("by a legacy client's notification reaches the service", async () => {
    const { engine, url } = await setUp();
    const client = await sessionClient(url);
    const answer = reading(url, '', client.headers);
    const execution = await engine.next();
    const notice = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}';
    expect((await client.post(notice)).status).toBe(202);
    await execution.cancelled;
    await answer.over;
    expect(answer.messages).toEqual([]);
  });

  test('by a modern client that leaves reaches the service', async () => {
    const { engine, url } = await setUp();
    const answer = reading(url, MODERN_META, MODERN_HEADERS);
    const execution = await engine.next();
    answer.leave();
    await execution.cancelled;
  });

  test.each(['by its notification', 'by leaving'])('of a client that has stopped reading: %s', async (how) => {
    const { engine, service, url } = await setUp();
    const { headers, post } = await sessionClient(url);
    const meta = '"progressToken":1';
    const stuck =
      how === 'by leaving'
        ? request(url, { method: 'POST', headers: { ...STREAMS, ...MODERN_HEADERS }, agent: false })
        : request(url, { method: 'POST', headers: { ...STREAMS, ...headers }, agent: false });
    stuck.on('error', () => undefined);
    onTestFinished(() => void stuck.destroy());
    stuck.end(callOfRun({ meta: how === 'by leaving' ? `${meta},${MODERN_META}` : meta }));
    const execution = await engine.next();
    const chunk = 'x'.repeat(1024 * 1024);
    let ended = false;
    let sent = 0;
    void execution.cancelled.then(() => {
      ended = true;
    });
    const flooding = (async () => {
      while (!ended) {
        const room = execution.reply({ outputType: 'COMPLETION', status: 'COMPLETED', content: [chunk] });
        sent++;
        if (!room) await Promise.race([execution.drained(), execution.cancelled]);
      }
    })();
    const [response] = await once(stuck, 'response');
    response.on('error', () => undefined);
    // Nothing goes on any more: all there is waits for the client.
    let before = 0;
    const stands = (): boolean => {
      const same = sent === before;
      before = sent;
      return same;
    };
    await expect.poll(stands, { interval: 200 }).toBe(true);
    if (how === 'by leaving') stuck.destroy();
    else await post('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}');
    await flooding;
    const why = how === 'by leaving' ? 'the client has left' : 'the client cancelled the call';
    await expect.poll(() => told(service)).toMatchObject(begunAndFailed('UNKNOWN', why));
  });
});
