import { expect, it } from 'vitest';
import { pool, Sent, startUpstream } from './pool.fixture.ts';

const OK = 'HTTP/1.1 200 OK\r\n';
const okResponse = (body: string) => `${OK}Content-Length: ${body.length}\r\n\r\n${body}`;

it('leaves no connection open after a thousand requests with all kinds of results', async () => {
  let left = 0;
  const upstream = await startUpstream((socket, index) => {
    if (index % 7 === 0) socket.end(`${OK}Content-Length: 9\r\n\r\nab`);
    else if (index % 5 === 0) socket.write(`${OK}Content-Length: 9\r\n\r\nab`);
    else socket.write(okResponse('abc'));
  });
  const to = pool(upstream);
  const ends: Promise<unknown>[] = [];
  for (let n = 0; n < 1_000; n++) {
    const aborts = ['head', 'data', 'end', 'later', undefined][n % 5];
    const over = Promise.withResolvers<void>();
    const call = new Sent(to, {}, (event, sent) => {
      if (event === aborts) sent.call.abort();
      if (event === aborts || event === 'end' || event === 'error') over.resolve();
      return true;
    });
    if (n % 11 === 0) call.call.abort();
    // Requests whose response never completes.
    setTimeout(() => {
      call.call.abort();
      over.resolve();
    }, 200);
    ends.push(over.promise);
    if (n % 20 === 0) await new Promise(setImmediate);
  }
  await Promise.all(ends);
  await to.close();
  for (const [index] of upstream.sockets.entries()) await upstream.closed(index).then(() => left++);
  expect(left).toBe(upstream.sockets.length);
  expect(process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap')).toEqual([]);
});

it('keeps the process alive only while requests are in flight', async () => {
  const alive = () => process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap').length;
  const upstream = await startUpstream((socket, index) => index === 0 && socket.write(okResponse('a')));
  const to = pool(upstream);
  await new Sent(to).done;
  // The upstream's end of the connection is in this process too.
  await expect.poll(alive).toBe(1);
  const call = new Sent(to);
  await upstream.requested(2);
  expect(alive()).toBe(2);
  // A response on another connection leads to a check of those that are idle.
  const other = new Sent(to);
  await upstream.requested(3);
  upstream.sockets[1]?.write(okResponse('c'));
  await other.done;
  await expect.poll(alive).toBe(3);
  upstream.sockets[0]?.write(okResponse('b'));
  await call.done;
  await expect.poll(alive).toBe(2);
});
