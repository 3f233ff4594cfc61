import { type IncomingMessage, request } from 'node:http';
import { Duplex } from 'node:stream';
import { expect, it } from 'vitest';
import { testSeed } from '../../../../../test/fixtures/seed.ts';
import { cutAtRandom, mutated, oneOf, type Random, random } from '../message-fuzz.fixture.ts';
import { type Reading, read } from './response-parser.fixture.ts';

/** A response that conforms to RFC 9112, with rarely used features. */
function validResponse(next: Random): string {
  const text = (length: number) => Array.from({ length }, () => oneOf(next, ...'azAZ09 \t;:,"\\=\xe9\xff')).join('');
  const token = () => Array.from({ length: 1 + next(8) }, () => oneOf(next, ...'azAZ09!#-_.~|^`')).join('');
  const blank = () => oneOf(next, '', ' ', ' ', '\t ');
  const line = (name: string, value: string) => `${name}:${blank()}${value}${blank()}\r\n`;
  const encoding = () => `${oneOf(next, ' ', '')}${oneOf(next, 'chunked', 'Chunked')}${oneOf(next, '', ' ')}\r\n`;
  const fields = () => Array.from({ length: next(4) }, () => line(`X-${token()}`, text(next(12)).trim())).join('');
  const body = text(next(40)) + oneOf(next, '', '\r\n', '\r\n\r\n0\r\n\r\n');
  let head = next(4) === 0 ? `HTTP/1.1 ${oneOf(next, '100 Continue', '103', '199 x')}\r\n${fields()}\r\n` : '';
  const framing = oneOf(next, 'length', 'chunked', 'close', 'none');
  const status = framing === 'none' ? oneOf(next, 204, 304) : oneOf(next, 200, 201, 202, 400, 404, 500, 503, 299);
  const version = framing === 'chunked' ? '1.1' : oneOf(next, '1.1', '1.1', '1.0');
  head += `HTTP/${version} ${status}${oneOf(next, '', ' ', ' OK', ` ${text(6)}`)}\r\n${fields()}`;
  if (next(3) === 0) head += line('Connection', oneOf(next, 'close', 'keep-alive', 'Keep-Alive', 'x, close'));
  if (next(3) === 0) head += line('Keep-Alive', oneOf(next, 'timeout=5', 'timeout=5, max=100', 'max=1', ''));
  if (framing === 'close') return `${head}${fields()}\r\n${body}`;
  if (framing === 'none') return `${head}${fields()}\r\n`;
  if (framing === 'length') {
    return `${head}${line(oneOf(next, 'Content-Length', 'content-length'), String(body.length))}${fields()}\r\n${body}`;
  }
  head += `Transfer-Encoding:${encoding()}${fields()}\r\n`;
  for (let at = 0; at < body.length; ) {
    const size = Math.min(1 + next(20), body.length - at);
    const extension = next(6) === 0 ? `;${token()}${oneOf(next, '', `=${token()}`, '="a b"')}` : '';
    head += `${oneOf(next, '', '0', '00')}${size.toString(16)}${extension}\r\n${body.slice(at, at + size)}\r\n`;
    at += size;
  }
  return `${head}${oneOf(next, '0', '00')}\r\n${fields()}\r\n`;
}

type Heard = Pick<Reading, 'outcome' | 'status' | 'phrase' | 'raw' | 'body'>;

/** Parses the bytes with Node's own client (llhttp). */
function reference(bytes: Buffer): Promise<Heard> {
  const { promise, resolve } = Promise.withResolvers<Heard>();
  const rejected = () => resolve({ outcome: 'invalid', status: 0, phrase: '', raw: [], body: '' });
  const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
  const call = request({ createConnection: () => socket, method: 'POST', path: '/' });
  call.on('error', rejected);
  call.on('upgrade', rejected);
  // Only for an exchange without a response: the event may precede the end of an empty body.
  let close = rejected;
  call.on('close', () => close());
  call.on('response', (response: IncomingMessage) => {
    close = () => undefined;
    response.on('close', rejected);
    let body = '';
    response.setEncoding('latin1');
    response.on('data', (text: string) => {
      body += text;
    });
    response.on('error', rejected);
    response.on('end', () => {
      if (!response.complete) return rejected();
      const { statusCode: status = 0, statusMessage: phrase = '', rawHeaders: raw } = response;
      resolve({ outcome: 'complete', status, phrase, raw, body });
    });
  });
  call.end();
  setImmediate(() => {
    socket.push(bytes);
    socket.push(null);
  });
  return promise.finally(() => socket.destroy());
}

/** Fails when we accept what the reference rejects, or interpret it differently. */
async function compare(text: string, next: Random): Promise<Reading> {
  const bytes = Buffer.from(text, 'latin1');
  const ours = read(bytes);
  const cut = read(...cutAtRandom(next, bytes));
  expect(cut.outcome, JSON.stringify(text)).toBe(ours.outcome);
  if (ours.outcome !== 'complete') return ours;
  expect(cut, JSON.stringify(text)).toEqual(ours);
  // Bytes after the response close the connection here; the reference fails the whole exchange.
  const theirs = await reference(bytes.subarray(0, ours.length));
  const { outcome, status, phrase, raw, body } = ours;
  expect({ outcome, status, phrase, raw, body }, JSON.stringify(text)).toEqual(theirs);
  return ours;
}

const ROUNDS = 3_000;
/** First lines of other responses. */
const START = ['HTTP/1.1 200 OK\r\n', 'HTTP/1.1 100\r\n\r\n'];

it('accepts every valid response with the same result as the reference parser', async () => {
  const next = random(testSeed());
  for (let round = 0; round < ROUNDS / 3; round++) {
    const text = validResponse(next);
    expect((await compare(text, next)).outcome, JSON.stringify(text)).toBe('complete');
  }
});

it('accepts nothing that the reference parser rejects or interprets differently', async () => {
  const next = random(testSeed() + 1);
  const outcomes = { complete: 0, incomplete: 0, invalid: 0, 'too-large': 0 };
  for (let round = 0; round < ROUNDS; round++)
    outcomes[(await compare(mutated(next, validResponse(next), START), next)).outcome]++;
  // The mutations must be neither all harmless nor all detected.
  expect(outcomes.complete).toBeGreaterThan(ROUNDS / 20);
  expect(outcomes.invalid).toBeGreaterThan(ROUNDS / 20);
});
