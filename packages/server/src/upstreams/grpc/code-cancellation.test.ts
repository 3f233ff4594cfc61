import { once } from 'node:events';
import { request } from 'node:http';
import { describe, expect, onTestFinished, test } from 'vitest';
import { MODERN } from '../../../../../test/fixtures/raw-client.ts';
import { sessionClient } from '../../../testing/session-client.ts';
import { callOfRun, eventsOf, reading, STREAMS, setUp } from './fixtures/code-tests.ts';
import { STARTED_AND_COMPLETED, startedAndFailed } from './fixtures/operation-tests.ts';

const MODERN_META = `"io.modelcontextprotocol/protocolVersion":"${MODERN}","io.modelcontextprotocol/clientCapabilities":{}`;
const MODERN_HEADERS = { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': 'run' };

test('code of a disconnected legacy client runs to its end', async () => {
  const { engine, service, url } = await setUp();
  const response = reading(url, '"progressToken":1');
  const execution = await engine.next();
  let cancelled = false;
  void execution.canceled.then(() => {
    cancelled = true;
  });
  execution.reply({ outputType: 'STATUS', status: 'RUNNING' });
  await response.message(0);
  response.disconnect();
  // More than the buffers of an unread connection.
  const chunk = 'x'.repeat(1024 * 1024);
  for (let number = 0; number < 8; number++) {
    if (!execution.reply({ outputType: 'COMPLETION', status: 'RUNNING', content: [chunk] })) await execution.drained();
  }
  execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['last'] });
  expect(cancelled).toBe(false);
  execution.end();
  await expect.poll(() => eventsOf(service)).toMatchObject([{}, { ...STARTED_AND_COMPLETED[1], content: ['last'] }]);
});

describe('cancellation', () => {
  test("by a legacy client's notification reaches the service", async () => {
    const { engine, url } = await setUp();
    const client = await sessionClient(url);
    const response = reading(url, '', client.headers);
    const execution = await engine.next();
    const notice = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}';
    expect((await client.post(notice)).status).toBe(202);
    await execution.canceled;
    await response.ended;
    expect(response.messages).toEqual([]);
  });

  test('by a disconnecting modern client reaches the service', async () => {
    const { engine, url } = await setUp();
    const response = reading(url, MODERN_META, MODERN_HEADERS);
    const execution = await engine.next();
    response.disconnect();
    await execution.canceled;
  });

  test.each(['by its notification', 'by leaving'])('of a client that does not read: %s', async (how) => {
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
    void execution.canceled.then(() => {
      ended = true;
    });
    const flooding = (async () => {
      while (!ended) {
        const room = execution.reply({ outputType: 'COMPLETION', status: 'COMPLETED', content: [chunk] });
        sent++;
        if (!room) await Promise.race([execution.drained(), execution.canceled]);
      }
    })();
    const [response] = await once(stuck, 'response');
    response.on('error', () => undefined);
    // Everything now waits for the client.
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
    const why = how === 'by leaving' ? 'the client has disconnected' : 'the client canceled the call';
    await expect.poll(() => eventsOf(service)).toMatchObject(startedAndFailed('UNKNOWN', why, 'canceled'));
  });
});
