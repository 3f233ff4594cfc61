import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { connect, createServer as createTcpServer } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testSeed } from '../../../../test/fixtures/seed.ts';
import { localhostCertificate } from './client/certificate.fixture.ts';
import { listen } from './client/listening.fixture.ts';
import { startProxy } from './proxy.fixture.ts';

/** The bytes of a stream, hashed. */
async function hashOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of stream) hash.update(piece);
  return hash.digest('hex');
}

/** Everything that a raw client receives from the port until the connection closes. */
async function rawly(port: number, bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1').setEncoding('latin1');
  socket.write(bytes, 'latin1');
  let text = '';
  for await (const piece of socket) text += piece;
  return text;
}

/** Seeded, so that a failure can be reproduced (mulberry32). */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

/** The bytes in chunks of random sizes, some of them after a turn of the event loop. */
async function writeInPieces(to: NodeJS.WritableStream, bytes: Buffer, next: (below: number) => number): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const end = at + 1 + next(next(4) === 0 ? 200_000 : 20);
    if (!to.write(bytes.subarray(at, end))) await once(to, 'drain');
    if (next(8) === 0) await new Promise(setImmediate);
    at = end;
  }
  to.end();
}

/** Responds with the request body in other chunks, and its hash. */
async function echo(next: (below: number) => number, incoming: IncomingMessage, response: ServerResponse) {
  const pieces: Buffer[] = [];
  for await (const piece of incoming) pieces.push(piece);
  const body = Buffer.concat(pieces);
  const length = next(2) === 0 ? { 'content-length': body.length } : {};
  response.writeHead(200, { ...length, 'x-hash': createHash('sha256').update(body).digest('hex') });
  await writeInPieces(response, body, next);
}

describe('the proxy', () => {
  const certificates = getCACertificates('default');
  beforeAll(() => setDefaultCACertificates([...certificates, localhostCertificate.cert]));
  afterAll(() => setDefaultCACertificates(certificates));

  it.each(['http', 'https'])('forwards bodies unmodified for any chunk sizes, over %s', async (scheme) => {
    const next = random(testSeed());
    const handle = (incoming: IncomingMessage, response: ServerResponse) => void echo(next, incoming, response);
    const server = scheme === 'http' ? createServer(handle) : createHttpsServer(localhostCertificate, handle);
    const host = scheme === 'http' ? '127.0.0.1' : 'localhost';
    const proxy = await startProxy(`${scheme}://${host}:${await listen(server)}/`);
    await Promise.all(
      Array.from({ length: 60 }, async (_, round) => {
        const body = randomBytes(round % 6 === 0 ? next(3) : next(round % 3 === 0 ? 1_000_000 : 3_000));
        const headers = next(2) === 0 ? { 'content-length': body.length } : { 'transfer-encoding': 'chunked' };
        const call = request({ port: proxy.port, host: '127.0.0.1', method: 'POST', headers });
        const responded = once(call, 'response');
        await writeInPieces(call, body, next);
        const [response] = await responded;
        const hash = createHash('sha256').update(body).digest('hex');
        expect({ round, sent: response.headers['x-hash'], received: await hashOf(response) }).toEqual({
          round,
          sent: hash,
          received: hash,
        });
      }),
    );
    expect(proxy.errors).toEqual([]);
  });

  it('forwards all header lines in order, with their case and bytes, and the reason phrase', async () => {
    const lines = ['Set-Cookie: a=1', 'X-Dup: 1', 'set-cookie: b=2; x="\xe9"', 'x-dup:2', 'SET-COOKIE:', 'X-\xd7'];
    lines[5] = 'X-Latin: \x80\xff';
    const head = `HTTP/1.1 299 Gr\xfcn\r\n${lines.join('\r\n')}\r\n`;
    const upstream = createTcpServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => socket.write(`${head}Content-Length: 2\r\n\r\nok`, 'latin1'));
    });
    const proxy = await startProxy(`http://127.0.0.1:${await listen(upstream)}/`);
    const text = await rawly(proxy.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
    expect(text.split('\r\n')).toEqual([
      'HTTP/1.1 299 Gr\xfcn',
      ...lines.map((line) => line.replace(/:(?! )/, ': ')),
      'Content-Length: 2',
      'Connection: close',
      '',
      'ok',
    ]);
  });

  it('forwards method, path and headers of the request', async () => {
    let seen = '';
    const upstream = createTcpServer((socket) => {
      socket.setEncoding('latin1').once('data', (text: string) => {
        seen = text;
        socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
      });
    });
    const port = await listen(upstream);
    const proxy = await startProxy(`http://127.0.0.1:${port}/unused?x`);
    const target = '//a%2Fb/../c;d?e=%zz&f=<{"\\}>&&%00';
    const headers = 'X-Dup: 1\r\nAuthorization: Bearer x\r\nx-dup: \xe9\r\n';
    await rawly(proxy.port, `PROPFIND ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${headers}\r\n`);
    expect(seen).toBe(
      `PROPFIND ${target} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nconnection: keep-alive\r\n${headers}\r\n`,
    );
  });

  it('forwards a compressed body unchanged, without trailers', async () => {
    const body = gzipSync(randomBytes(50_000));
    const upstream = createServer((_incoming, response) => {
      response.writeHead(200, { 'Content-Encoding': 'gzip', Trailer: 'X-Sum' });
      response.write(body.subarray(0, 1_000));
      response.addTrailers({ 'X-Sum': '1' });
      response.end(body.subarray(1_000));
    });
    const proxy = await startProxy(`http://127.0.0.1:${await listen(upstream)}/`);
    for (const _again of [1, 2]) {
      const [response] = await once(request({ port: proxy.port, host: '127.0.0.1' }).end(), 'response');
      expect(response.headers['content-encoding']).toBe('gzip');
      expect(await hashOf(response)).toBe(createHash('sha256').update(body).digest('hex'));
      expect(response.trailers).toEqual({});
    }
    expect(proxy.errors).toEqual([]);
  });
});
