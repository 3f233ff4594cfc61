import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { readAll } from '../../../../test/fixtures/raw-exchange.ts';
import { startTestService } from '../../testing/service.ts';

test('a client receives the reason why its request is malformed, even while it continues to send', async () => {
  const service = await startTestService();
  onTestFinished(() => service.stop(0));
  const { hostname, port } = new URL(service.management);
  for (let round = 0; round < 5; round++) {
    const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
    onTestFinished(() => void socket.destroy());
    let answer = '';
    socket.on('data', (chunk) => {
      answer += chunk;
    });
    const answered = once(socket, 'end');
    await once(socket, 'connect');
    // Such bytes are invalid in a path.
    const head = 'PUT /api/v1/tools/\xe9 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4194304\r\n\r\n';
    socket.write(Buffer.from(head, 'latin1'));
    for (let piece = 0; piece < 64; piece++) {
      if (!socket.write(Buffer.alloc(65_536, ' '))) await once(socket, 'drain');
    }
    socket.end();
    await answered;
    expect(answer).toMatch(/^HTTP\/1.1 400 Bad Request\r\n/);
  }
});

test.for([
  ['a stream of events', 'GET /api/v1/tool-calls/notifications'],
  ['an answer that did not wait for the body', 'PUT /api/v1/tools/%zz'],
] as const)('%s has no second response if the rest of the request is malformed', async ([_name, line]) => {
  const service = await startTestService();
  onTestFinished(() => service.stop(0));
  const socket = connect(Number(new URL(service.management).port), '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.write(`${line} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n \r\n`);
  const [first] = await once(socket, 'data');
  const all = readAll(socket);
  socket.write('no chunk\r\n');
  expect(`${first}${await all}`.match(/HTTP\/1\.1 \d+/g)).toHaveLength(1);
});

test('malformed input after a response gets its own response', async () => {
  const service = await startTestService();
  onTestFinished(() => service.stop(0));
  const socket = connect(Number(new URL(service.management).port), '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const [first] = await once(socket, 'data');
  const all = readAll(socket);
  socket.write('no request\r\n\r\n');
  expect(`${first}${await all}`.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 400']);
});
