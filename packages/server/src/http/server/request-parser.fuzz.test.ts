import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Duplex } from 'node:stream';
import { expect, it } from 'vitest';
import { testSeed } from '../../../../../test/fixtures/seed.ts';
import { cutAtRandom, mutated, oneOf, type Random, random } from '../message-fuzz.fixture.ts';
import { MalformedMessage } from '../message-parser.ts';
import { createRequestParser, type RequestHead } from './request-parser.ts';

/** Result of parsing the first request in some bytes. */
interface Reading {
  readonly outcome: 'complete' | 'incomplete' | 'ambiguous' | MalformedMessage['kind'];
  /** What the request means; undefined unless it is complete. */
  readonly meaning: Meaning | undefined;
  /** Bytes that belong to the request. */
  readonly length: number;
}

type Meaning = Pick<RequestHead, 'method' | 'url' | 'httpVersion' | 'headers' | 'rawHeaders' | 'persistent'> & {
  /** The body as latin1. */
  readonly body: string;
};

function read(...pieces: readonly Buffer[]): Reading {
  let head: RequestHead | undefined;
  let body = '';
  const parser = createRequestParser({
    onHead: (parsed) => {
      head = parsed;
    },
    onBody: (buffer, start, end) => {
      body += buffer.toString('latin1', start, end);
    },
  });
  let length = 0;
  try {
    // Copies, since the parser writes to its input.
    for (const piece of pieces) if (!parser.done) length += parser.execute(Buffer.from(piece), 0, piece.length);
  } catch (error) {
    if (!(error instanceof MalformedMessage)) throw error;
    return { outcome: error.kind, meaning: undefined, length };
  }
  if (!head || !parser.done) return { outcome: 'incomplete', meaning: undefined, length };
  // The service rejects them.
  if (head.ambiguity !== undefined || head.method === 'CONNECT')
    return { outcome: 'ambiguous', meaning: undefined, length };
  const { method, url, httpVersion, headers, rawHeaders, persistent } = head;
  return { outcome: 'complete', meaning: { method, url, httpVersion, headers, rawHeaders, persistent, body }, length };
}

/** Parses the bytes with Node's own server (llhttp); undefined if it rejects them. */
function reference(bytes: Buffer): Promise<Meaning | undefined> {
  const { promise, resolve } = Promise.withResolvers<Meaning | undefined>();
  const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
  const server = createServer({ requireHostHeader: false });
  const serve = (request: IncomingMessage, { shouldKeepAlive: persistent }: ServerResponse): void => {
    let body = '';
    request.setEncoding('latin1');
    request.on('data', (text: string) => {
      body += text;
    });
    request.on('error', () => resolve(undefined));
    request.on('end', () => {
      const { method = '', url = '', headers, rawHeaders } = request;
      const httpVersion = request.httpVersion === '1.0' ? '1.0' : '1.1';
      resolve({ method, url, httpVersion, headers: { ...headers }, rawHeaders, persistent, body });
    });
  };
  for (const event of ['request', 'checkContinue', 'checkExpectation']) server.on(event, serve);
  server.on('clientError', () => resolve(undefined));
  server.emit('connection', socket);
  socket.push(bytes);
  return promise.finally(() => {
    socket.destroy();
    server.close();
  });
}

/** A request that conforms to RFC 9112, with rarely used features. */
function validRequest(next: Random): string {
  const text = (length: number) => Array.from({ length }, () => oneOf(next, ...'azAZ09 \t;:,"\\=\xe9\xff')).join('');
  const token = () => Array.from({ length: 1 + next(8) }, () => oneOf(next, ...'azAZ09!#-_.~|^`')).join('');
  const blank = () => oneOf(next, '', ' ', ' ', '\t ');
  const line = (name: string, value: string) => `${name}:${blank()}${value}${blank()}\r\n`;
  const name = () =>
    oneOf(next, `X-${token()}`, token(), 'X-A', 'x-a', 'Cookie', 'Accept', 'Set-Cookie', 'User-Agent', 'constructor');
  const fields = () => Array.from({ length: next(5) }, () => line(name(), text(next(12)).trim())).join('');
  const target = () => `/${Array.from({ length: next(12) }, () => oneOf(next, ...'aZ09/?&=%.;"<>{}|\\^`~')).join('')}`;
  const framing = oneOf(next, 'none', 'length', 'chunked');
  const version = framing === 'chunked' ? '1.1' : oneOf(next, '1.1', '1.1', '1.0');
  const method = oneOf(next, 'GET', 'POST', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'HEAD', 'PATCH', 'M-SEARCH', 'QUERY');
  let head = `${oneOf(next, '', '', '\r\n')}${method} ${target()} HTTP/${version}\r\n${fields()}${line('Host', 'a:1')}`;
  if (next(3) === 0)
    head += line('Connection', oneOf(next, 'close', 'keep-alive', 'Keep-Alive', 'x, close', 'close, keep-alive'));
  if (next(6) === 0) head += 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
  if (next(6) === 0) head += line('Expect', oneOf(next, '100-continue', '100-Continue', 'x'));
  if (framing === 'none') return `${head}${fields()}\r\n`;
  const body = text(next(40)) + oneOf(next, '', '\r\n', '\r\n\r\n0\r\n\r\n', 'GET / HTTP/1.1\r\n\r\n');
  if (framing === 'length') {
    return `${head}${line(oneOf(next, 'Content-Length', 'content-length'), String(body.length))}${fields()}\r\n${body}`;
  }
  head += `Transfer-Encoding:${oneOf(next, ' ', '')}${oneOf(next, 'chunked', 'Chunked')}${oneOf(next, '', ' ')}\r\n${fields()}\r\n`;
  for (let at = 0; at < body.length; ) {
    const size = Math.min(1 + next(20), body.length - at);
    const extension = next(6) === 0 ? `;${token()}${oneOf(next, '', `=${token()}`, '="a b"')}` : '';
    head += `${oneOf(next, '', '0', '00')}${size.toString(16)}${extension}\r\n${body.slice(at, at + size)}\r\n`;
    at += size;
  }
  return `${head}${oneOf(next, '0', '00')}\r\n${fields()}\r\n`;
}

/** Fails when we accept what the reference rejects, or interpret it differently. */
async function compare(text: string, next: Random): Promise<Reading> {
  const bytes = Buffer.from(text, 'latin1');
  const ours = read(bytes);
  const cut = read(...cutAtRandom(next, bytes));
  expect(cut.outcome, JSON.stringify(text)).toBe(ours.outcome);
  if (ours.outcome !== 'complete') return ours;
  expect(cut, JSON.stringify(text)).toEqual(ours);
  const theirs = await reference(bytes.subarray(0, ours.length));
  // Closing a connection that could be kept is safe.
  const persistent = ours.meaning?.persistent === false ? false : theirs?.persistent;
  expect(ours.meaning, JSON.stringify(text)).toEqual(theirs && { ...theirs, persistent });
  return ours;
}

const ROUNDS = 3_000;
/** First lines of other requests. */
const START = ['GET / HTTP/1.1\r\n', 'POST http://a/ HTTP/1.0\r\n', 'Host: b\r\n', 'Expect: 100-continue\r\n'];

it('accepts every valid request with the same result as the reference parser', async () => {
  const next = random(testSeed());
  for (let round = 0; round < ROUNDS / 3; round++) {
    const text = validRequest(next);
    expect((await compare(text, next)).outcome, JSON.stringify(text)).toBe('complete');
  }
});

it('accepts nothing that the reference parser rejects or interprets differently', async () => {
  const next = random(testSeed() + 1);
  const outcomes = { complete: 0, incomplete: 0, ambiguous: 0, invalid: 0, 'too-large': 0 };
  for (let round = 0; round < ROUNDS; round++)
    outcomes[(await compare(mutated(next, validRequest(next), START), next)).outcome]++;
  // The mutations must be neither all harmless nor all detected.
  expect(outcomes.complete).toBeGreaterThan(ROUNDS / 20);
  expect(outcomes.invalid).toBeGreaterThan(ROUNDS / 20);
});

it('interprets a repeated head like the first one, wherever it is cut', async () => {
  const next = random(testSeed() + 2);
  for (let round = 0; round < 300; round++) {
    const text = validRequest(next);
    const first = Buffer.from(text, 'latin1');
    const second = Buffer.from(next(2) === 0 ? text : mutated(next, text, START), 'latin1');
    if (read(first).outcome !== 'complete') continue;
    const heads: RequestHead[] = [];
    let body = '';
    const parser = createRequestParser({
      onHead: (head) => void heads.push(head),
      onBody: (buffer, start, end) => {
        body += buffer.toString('latin1', start, end);
      },
    });
    parser.execute(first, 0, first.length);
    parser.reset();
    body = '';
    const alone = read(second);
    const parse = () => {
      const pieces = cutAtRandom(next, second).map((piece) => Buffer.from(piece));
      for (const piece of pieces) if (!parser.done) parser.execute(piece, 0, piece.length);
    };
    if (alone.outcome === 'invalid' || alone.outcome === 'too-large') {
      expect(parse, JSON.stringify(text)).toThrow(MalformedMessage);
      continue;
    }
    parse();
    if (alone.outcome === 'complete')
      expect(alone.meaning).toMatchObject({ url: heads[1]?.url, rawHeaders: heads[1]?.rawHeaders, body });
    expect(parser.done).toBe(alone.outcome !== 'incomplete');
  }
});
