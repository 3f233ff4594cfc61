import { randomBytes } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { brotliCompressSync, constants, createZstdCompress, gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { CODINGS } from './codings.fixture.ts';
import { collectResponse } from './collect-response.ts';
import { listen } from './listening.fixture.ts';
import { pool, Sent, startUpstream } from './pool.fixture.ts';
import { settled } from './settled.fixture.ts';

const PIECES = [
  ['whole', Number.POSITIVE_INFINITY],
  ['in chunks of 1 byte', 1],
] as const;

/** Starts a server that answers with this body, in pieces of this size. */
async function serverOf(
  lines: readonly string[],
  body: Buffer,
  size = Number.POSITIVE_INFINITY,
  { status = 200, type = 'application/json' } = {},
) {
  const port = await listen(
    createServer(async (_request, response) => {
      response.setHeader('content-encoding', [...lines]).writeHead(status, {
        'content-type': type,
        ...(size >= body.length && { 'content-length': body.length }),
      });
      for (let at = 0; at < body.length; at += size) {
        response.write(body.subarray(at, at + size));
        if (size < body.length) await nextTurn();
      }
      response.end();
    }),
  );
  return { port };
}

const JSON_TEXT = `{"jsonrpc":"2.0","id":1,"result":{"text":"${'grün '.repeat(40)}"}}`;

describe('a response with a content coding', () => {
  describe.each(PIECES)('that arrives %s', (_how, size) => {
    it.each(CODINGS)('is decoded: $name', async ({ lines, encode }) => {
      const { port } = await serverOf(lines, encode(Buffer.from(JSON_TEXT)), size);
      const { body, error, headers, raw, log } = await new Sent(pool({ port })).done;
      expect(error).toBeUndefined();
      expect(Buffer.from(body, 'latin1').toString()).toBe(JSON_TEXT);
      expect(log.slice(0, 2)).toEqual(['dispatched', 'head']);
      if (lines[0] === 'identity') return;
      expect(Object.keys(headers)).not.toContain('content-encoding');
      expect(Object.keys(headers)).not.toContain('content-length');
      expect(raw.filter((text) => /^content-(encoding|length)$/i.test(text))).toEqual([]);
      expect(headers['content-type']).toBe('application/json');
    });
  });

  it.each(CODINGS)('is decoded as a stream if it is large: $name', { tags: ['slow'] }, async ({ lines, encode }) => {
    const text = randomBytes(1_000_000).toString('base64');
    const { port } = await serverOf(lines, encode(Buffer.from(text)));
    const { body, error } = await new Sent(pool({ port })).done;
    expect(error).toBeUndefined();
    expect(body === text).toBe(true);
  });

  it('of a small body that expands beyond what is decoded at once is decoded as a stream', async () => {
    const text = 'x'.repeat(20_000_000);
    const { port } = await serverOf(['br'], brotliCompressSync(text));
    expect((await new Sent(pool({ port })).done).body === text).toBe(true);
  });

  it.each([
    ['HEAD', 'HEAD', 'HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 500\r\n\r\n'],
    ['an empty body', 'POST', 'HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n'],
    [
      'an empty chunked body',
      'POST',
      'HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['202', 'POST', 'HTTP/1.1 202 Accepted\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n'],
    ['204', 'POST', 'HTTP/1.1 204 No Content\r\nContent-Encoding: gzip\r\n\r\n'],
    [
      'an unknown coding of an empty body',
      'POST',
      'HTTP/1.1 202 OK\r\nContent-Encoding: rot13\r\nContent-Length: 0\r\n\r\n',
    ],
  ])('may have no body: %s', async (_which, method, response) => {
    const upstream = await startUpstream((socket) => socket.write(response));
    const request = method === 'HEAD' ? { method, body: '' } : { method };
    const { log, body } = await new Sent(pool(upstream), request).done;
    expect(log).toEqual(['dispatched', 'head', 'end']);
    expect(body).toBe('');
  });

  it('is decoded before its connection is used again', async () => {
    const { port } = await serverOf(['gzip'], gzipSync(JSON_TEXT));
    const to = pool({ port });
    for (let n = 0; n < 3; n++) expect((await new Sent(to).done).body).toContain('"result"');
  });

  it('is passed on by a proxy as it is', async () => {
    const coded = gzipSync(JSON_TEXT);
    const { port } = await serverOf(['gzip'], coded);
    const { body, headers } = await new Sent(pool({ port }, { codings: 'pass' })).done;
    expect(body).toBe(coded.toString('latin1'));
    expect(headers).toMatchObject({ 'content-encoding': 'gzip', 'content-length': String(coded.length) });
  });
});

describe('an event stream with a content coding', () => {
  it.each(CODINGS.filter(({ stream }) => stream))('delivers each event when it has arrived: $name', async (coding) => {
    const responses: ServerResponse[] = [];
    const encoder = coding.stream?.();
    const port = await listen(
      createServer((_request, response) => {
        response
          .setHeader('content-encoding', [...coding.lines])
          .writeHead(200, { 'content-type': 'text/event-stream' });
        encoder?.on('data', (chunk) => response.write(chunk)).on('end', () => response.end());
        responses.push(response);
        send(0);
      }),
    );
    const send = (n: number) => {
      encoder?.write(`data: ${n}\n\n`);
      encoder?.flush(() => undefined);
    };
    let received = 0;
    const events: number[] = [];
    // The server waits with the next event until the client has got the previous one.
    const call = new Sent(pool({ port }), {}, (event, { body }) => {
      if (event !== 'data' || body.split('\n\n').length - 1 === received) return true;
      received = body.split('\n\n').length - 1;
      events.push(received);
      if (received < 5) send(received);
      else encoder?.end();
      return true;
    });
    const { body, error } = await call.done;
    expect(error).toBeUndefined();
    expect(body).toBe('data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\n');
    expect(events).toEqual([1, 2, 3, 4, 5]);
  });

  it('that breaks off delivers what has arrived before the error', async () => {
    const coded = gzipSync('data: 1\n\n', { finishFlush: constants.Z_SYNC_FLUSH });
    const port = await listen(
      createServer((request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' });
        response.write(coded, () => request.socket.destroy());
      }),
    );
    const { body, error, log } = await new Sent(pool({ port })).done;
    expect(error).toMatchObject({ kind: 'dropped' });
    expect(body).toBe('data: 1\n\n');
    expect(log.at(-1)).toBe('error');
  });
});

describe('a body that cannot be decoded', () => {
  const coded = gzipSync(JSON_TEXT);
  const damaged = (body: Buffer) => Buffer.concat([body.subarray(0, 12), Buffer.alloc(40, 0xff), body.subarray(52)]);

  describe.each(PIECES)('that arrives %s', (_how, size) => {
    it.each([
      ['that ends too early', ['gzip'], coded.subarray(0, -5), 'a gzip body that ends too early'],
      [
        'br that ends too early',
        ['br'],
        brotliCompressSync(JSON_TEXT).subarray(0, -5),
        'a br body that ends too early',
      ],
      [
        'zstd that ends too early',
        ['zstd'],
        zstdCompressSync(JSON_TEXT).subarray(0, -5),
        'a zstd body that ends too early',
      ],
      ['gzip that is damaged', ['gzip'], damaged(coded), 'a gzip body that is damaged (Z_DATA_ERROR)'],
      ['gzip that is text', ['gzip'], Buffer.from(JSON_TEXT), 'a gzip body that is damaged (Z_DATA_ERROR)'],
      ['br that is text', ['br'], Buffer.from(JSON_TEXT), 'a br body that '],
      [
        'zstd that is text',
        ['zstd'],
        Buffer.from(JSON_TEXT),
        'a zstd body that is damaged (ZSTD_error_prefix_unknown)',
      ],
      ['deflate that is text', ['deflate'], Buffer.from(JSON_TEXT), 'a deflate body that '],
      ['the inner of two codings', ['br, gzip'], coded, 'a br body that '],
      ['an unknown coding', ['gzip, Rot13'], coded, 'a body with the unknown content coding "rot13"'],
      ['more codings than anyone uses', ['gzip,gzip,gzip,gzip,gzip'], coded, 'a body with more than 4 content codings'],
    ])('fails the request with the name of the coding: %s', async (_which, lines, body, what) => {
      const { port } = await serverOf(lines, body, size);
      const { error, log } = await new Sent(pool({ port })).done;
      expect(error).toMatchObject({ kind: 'invalid', status: 200 });
      expect(error?.message).toContain(`upstream http://127.0.0.1:${port}/mcp answered with ${what}`);
      expect(log.filter((event) => event === 'error')).toHaveLength(1);
    });
  });

  it('keeps the status of an error', async () => {
    const { port } = await serverOf(['gzip'], coded.subarray(0, -5), undefined, { status: 503 });
    const { error } = await new Sent(pool({ port })).done;
    expect(error).toMatchObject({ kind: 'http', status: 503 });
    expect(error?.message).toContain('answered with HTTP 503 and a gzip body that ends too early');
  });

  it('needs no more memory than the coding has by its specification', async () => {
    // A window of 64 MB, which the decoder would have to allocate.
    const encoder = createZstdCompress({ params: { [constants.ZSTD_c_windowLog]: 26 } });
    encoder.write('{}');
    encoder.flush(() => encoder.end('{}'));
    const wide = Buffer.concat(await encoder.toArray());
    const { port } = await serverOf(['zstd'], wide);
    const { error } = await new Sent(pool({ port })).done;
    expect(error?.message).toContain('a zstd body that is damaged');
  });
});

describe('backpressure', () => {
  it('pauses the upstream while the handler is paused, and the decoder buffers little', async () => {
    const block = gzipSync(randomBytes(64 * 1024).toString('base64'));
    let written = 0;
    const port = await listen(
      createServer((_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' });
        const push = () => {
          while (written < 1_000) {
            written++;
            if (!response.write(block)) return response.once('drain', push);
          }
          return response.end();
        };
        push();
      }),
    );
    let isPaused = true;
    let paused = 0;
    const call = new Sent(pool({ port }), {}, (event, { body }) => {
      if (event === 'data') paused = body.length;
      return !isPaused;
    });
    await settled(() => paused && written);
    expect(paused).toBeLessThan(1024 * 1024);
    expect(written).toBeLessThan(900);
    isPaused = false;
    call.call.resume();
    const { body, error } = await call.done;
    expect(error).toBeUndefined();
    expect(body.length).toBe(1_000 * Buffer.from(randomBytes(64 * 1024)).toString('base64').length);
  });

  it('delays the end of a body that was decoded at once', async () => {
    const { port } = await serverOf(['gzip'], gzipSync(JSON_TEXT));
    const call = new Sent(pool({ port }), {}, (event) => event !== 'data');
    while (!call.log.includes('data')) await nextTurn();
    for (let n = 0; n < 100; n++) await nextTurn();
    expect(call.log).toEqual(['dispatched', 'head', 'data']);
    call.call.resume();
    expect((await call.done).log).toEqual(['dispatched', 'head', 'data', 'end']);
  });
});

describe('a body that expands', () => {
  /** 10 GB in 1 MB: members of gzip within brotli. */
  const bomb = () => {
    const member = gzipSync(Buffer.alloc(16 * 1024 * 1024));
    return brotliCompressSync(Buffer.concat(Array.from({ length: 640 }, () => member)), {
      params: { [constants.BROTLI_PARAM_QUALITY]: 1 },
    });
  };

  it('is stopped by its limit, which counts decoded bytes, without blocking the event loop', async () => {
    const { port } = await serverOf(['gzip, br'], bomb());
    let longest = 0;
    let last = performance.now();
    let isDone = false;
    const cpu = process.cpuUsage();
    const watch = (async () => {
      while (!isDone) {
        await nextTurn();
        longest = Math.max(longest, performance.now() - last);
        last = performance.now();
      }
    })();
    let most = 0;
    const call = new Sent(pool({ port }, { maxDecodedBytes: 8_000_000 }), {}, (_event, sent) => {
      most = sent.body.length;
      return true;
    });
    const { error } = await call.done;
    isDone = true;
    await watch;
    expect(error).toMatchObject({ kind: 'too-large' });
    expect(error?.message).toContain('answered with a br, gzip body of more than 8000000 decoded bytes');
    expect(most).toBeLessThanOrEqual(8_000_000);
    // Decoding all of it takes seconds.
    expect(process.cpuUsage(cpu).user).toBeLessThan(5_000_000);
    expect(longest).toBeLessThan(5_000);
  });

  it.each(['application/json', 'text/event-stream'])(
    'is stopped by its limit in each coding, also if nothing is left in the end: %s',
    async (type) => {
      const nothing = gzipSync('');
      const members = Buffer.alloc(800_000 * nothing.length, nothing);
      const { port } = await serverOf(['gzip, br'], brotliCompressSync(members), undefined, { type });
      const { error, body } = await new Sent(pool({ port }, { maxDecodedBytes: 8_000_000 })).done;
      expect(error).toMatchObject({ kind: 'invalid' });
      expect(error?.message).toContain('answered with a br body of more than 8000000 decoded bytes');
      expect(body).toBe('');
    },
  );

  it('is stopped by the limit of its reader', async () => {
    const { port } = await serverOf(['gzip, br'], bomb());
    const to = pool({ port });
    const limits = { maxBytes: 1_000_000, timeoutMs: 30_000 };
    await expect(collectResponse(to, { method: 'GET', headers: [] }, limits)).rejects.toMatchObject({
      kind: 'too-large',
      message: `upstream http://127.0.0.1:${port}/mcp answered with more than 1000000 bytes`,
    });
  });

  it('may be an event stream of any length whose events are not larger than the limit', async () => {
    const event = `data: ${'x'.repeat(60_000)}\n\n`;
    const body = gzipSync(event.repeat(50));
    const port = await listen(
      createServer(async (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' });
        for (let n = 0; n < 10; n++) await new Promise<void>((done) => response.write(body, () => done()));
        response.end();
      }),
    );
    const { body: text, error } = await new Sent(pool({ port }, { maxDecodedBytes: 64_000_000 })).done;
    expect(error).toBeUndefined();
    expect(text === event.repeat(500)).toBe(true);
  });
});

describe('abort', () => {
  it('stops a response that is being decoded, without a callback', async () => {
    const { port } = await serverOf(['gzip'], gzipSync(randomBytes(4_000_000).toString('base64')));
    const first = Promise.withResolvers<void>();
    const call = new Sent(pool({ port }), {}, (event) => {
      if (event === 'data') first.resolve();
      return true;
    });
    await first.promise;
    call.call.abort();
    const { length } = call.log;
    for (let n = 0; n < 200; n++) await nextTurn();
    expect(call.log).toHaveLength(length);
  });
});
