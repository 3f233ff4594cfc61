import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { startTestService } from '../testing/service.ts';

test('a client hears what could not be read of its request, also while it goes on sending', async () => {
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
    // No path has such a byte.
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
