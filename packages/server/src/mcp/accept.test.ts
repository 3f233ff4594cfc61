import { expect, it } from 'vitest';
import { send } from '../../../../test/fixtures/raw-client.ts';
import { liveTests } from '../../testing/live-tests.ts';
import { sessionClient } from '../../testing/session-client.ts';

const { live } = liveTests();

it.each([
  ['text/event-stream', 200],
  ['TEXT/Event-Stream', 200],
  ['text/*', 200],
  ['*/*', 200],
  ['application/json, text/event-stream;q=0.5', 200],
  ['application/json', 406],
  ['text/event-stream;q=0', 406],
  ['text/event-stream;q=0, */*', 406],
  ['text/html', 406],
])('a notification stream for %s: %i', async (accept, status) => {
  const { url } = await live();
  const client = await sessionClient(url);
  const stream = client.listen(undefined, { accept });
  expect((await stream.head).statusCode).toBe(status);
  stream.disconnect();
});

it.each([
  [['APPLICATION/JSON;q=0', 'Text/Event-Stream'], 'text/event-stream'],
  [['text/event-stream', 'application/json'], 'application/json'],
  [['text/*'], 'text/event-stream'],
  [['text/event-stream;q=0', '*/*'], 'application/json'],
])('the response to a call of a client that accepts %j is %s', async (lines, type) => {
  const { upstream, url } = await live();
  const { headers } = await sessionClient(url);
  // Several lines of a header are one with all values.
  const body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work"}}';
  const [accept = ''] = lines.length === 1 ? lines : [lines.join(', ')];
  const response = send(url, 'POST', { ...headers, 'content-type': 'application/json', accept }, body);
  (await upstream.calls.next()).json('done');
  expect((await response).headers['content-type']).toBe(type);
});
