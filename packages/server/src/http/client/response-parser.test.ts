import { describe, expect, it } from 'vitest';
import { MessageParser, type MessageSink } from '../message-parser.ts';
import { cuts, read, readAnswer } from './response-parser.fixture.ts';
import { ResponseFormat, type ResponseHead } from './response-parser.ts';

const OK = 'HTTP/1.1 200 OK\r\n';
const CHUNKED = `${OK}Transfer-Encoding: chunked\r\n\r\n`;

/** Parses the text in one chunk, after checking that other chunk boundaries have the same result. */
function readText(text: string) {
  const bytes = Buffer.from(text, 'latin1');
  const whole = read(bytes);
  for (const pieces of cuts(bytes)) {
    const { outcome, status, headers, body, persistent } = read(...pieces);
    expect({ outcome, status, headers, body, persistent }).toEqual({
      outcome: whole.outcome,
      status: whole.status,
      headers: whole.headers,
      body: whole.outcome === 'complete' ? whole.body : body,
      persistent: whole.persistent,
    });
  }
  return whole;
}

const parserOf = (sink: MessageSink<ResponseHead>) => new MessageParser(new ResponseFormat(), sink);

describe('ResponseParser', () => {
  it.each([
    ['a fixed length', `${OK}Content-Length: 3\r\n\r\nabc`, 'abc', true],
    ['no body', `${OK}Content-Length: 0\r\n\r\n`, '', true],
    ['chunks', `${CHUNKED}3\r\nabc\r\nA;x;y=z;q="a;\\"b"\r\n0123456789\r\n000\r\n\r\n`, 'abc0123456789', true],
    ['chunks with trailers', `${CHUNKED}1\r\na\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\n`, 'a', true],
    ['the end of input', `${OK}\r\nabc`, 'abc', false],
    ['the end of input, version 1.0', 'HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nabc', 'abc', false],
    ['a fixed length, version 1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na', 'a', false],
    ['a fixed length and a goodbye', `${OK}Content-Length: 1\r\nConnection: x, Close\r\n\r\na`, 'a', false],
    ['no reason phrase', 'HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na', 'a', true],
    ['no reason phrase but its space', 'HTTP/1.1 200 \r\nContent-Length: 1\r\n\r\na', 'a', true],
    ['a length in blanks', `${OK}Content-Length:\t 1 \t\r\n\r\na`, 'a', true],
    ['unusual capitalization', `${OK}tRANSFER-eNCODING: Chunked\r\n\r\n0\r\n\r\n`, '', true],
    [
      'interim responses before it',
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103\r\nLink: a\r\n\r\n${OK}Content-Length: 1\r\n\r\na`,
      'a',
      true,
    ],
  ])('parses a response with %s', (_what, text, body, persistent) => {
    expect(readText(text)).toMatchObject({ outcome: 'complete', status: 200, body, persistent, length: text.length });
  });

  it.each([204, 304])('expects no body after %i', (status) => {
    const line = `HTTP/1.1 ${status} Nothing\r\n`;
    expect(readText(`${line}\r\n`)).toMatchObject({ outcome: 'complete', status, body: '', persistent: true });
    const head = `${line}Content-Length: 5\r\n\r\n`;
    expect(readText(`${head}abcde`)).toMatchObject({ outcome: 'complete', persistent: false, length: head.length });
    expect(readText(`${line}Transfer-Encoding: chunked\r\n\r\n`)).toMatchObject({ body: '', persistent: false });
  });

  it('expects no body in a response to HEAD, regardless of its head declares', () => {
    const lengths: [string, boolean][] = [
      ['Content-Length: 5\r\n', false],
      ['Transfer-Encoding: chunked\r\n', false],
      ['Content-Length: 0\r\n', true],
      ['', true],
    ];
    for (const [header, persistent] of lengths) {
      const head = Buffer.from(`HTTP/1.1 100\r\n\r\n${OK}${header}\r\n`);
      const expected = { outcome: 'complete', status: 200, body: '', persistent, length: head.length };
      expect(readAnswer([head], true)).toMatchObject(expected);
      expect(readAnswer([head, Buffer.from('abcde')], true)).toMatchObject(expected);
      for (const pieces of cuts(head)) expect(readAnswer(pieces, true)).toMatchObject(expected);
    }
  });

  it('reports the start of a response, but not of an interim one', () => {
    const parser = parserOf({ onHead() {}, onBody() {} });
    const reported = ['HTTP/1.1 100\r\n\r\n', 'H', 'TTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n', 'a'].map((text) => {
      parser.execute(Buffer.from(text), 0, text.length);
      return parser.hasBegun;
    });
    expect(reported).toEqual([false, true, true, true]);
    parser.reset();
    expect(parser.hasBegun).toBe(false);
  });

  it.each([
    [' OK', 'OK'],
    [' Caf\xe9 \t x', 'Caf\xe9 \t x'],
    [' ', ''],
    ['', ''],
  ])('returns the reason phrase %j unmodified', (text, phrase) => {
    expect(readText(`HTTP/1.1 299${text}\r\nContent-Length: 0\r\n\r\n`)).toMatchObject({ status: 299, phrase });
  });

  it('does not consume input after the response', () => {
    const text = `${OK}Content-Length: 1\r\n\r\na`;
    expect(readText(`${text}HTTP/1.1 200 OK\r\n\r\n`)).toMatchObject({ body: 'a', length: text.length });
    expect(readText(`${CHUNKED}0\r\n\r\n0`)).toMatchObject({ outcome: 'complete', length: CHUNKED.length + 5 });
  });

  it('returns headers by lower-case name with repeated lines in order, and unmodified', () => {
    const { headers, raw } = readText(
      `${OK}Set-Cookie: a\r\nX-Empty:\r\nset-cookie:  b \r\nSET-COOKIE: c\r\n__proto__: p\r\nX: \xe9\t~\r\nContent-Length: 0\r\n\r\n`,
    );
    expect(Object.entries(headers)).toEqual([
      ['set-cookie', ['a', 'b', 'c']],
      ['x-empty', ''],
      ['__proto__', 'p'],
      ['x', '\xe9\t~'],
      ['content-length', '0'],
    ]);
    expect(raw.slice(0, 6)).toEqual(['Set-Cookie', 'a', 'X-Empty', '', 'set-cookie', 'b']);
  });

  it.each([
    ['another protocol', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['another version', 'HTTP/2.0 200 OK\r\n\r\n'],
    ['version 1.2', 'HTTP/1.2 200 OK\r\n\r\n'],
    ['a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n'],
    ['a status of four digits', 'HTTP/1.1 2000 OK\r\n\r\n'],
    ['a status below 100', 'HTTP/1.1 099 OK\r\n\r\n'],
    ['a status with a sign', 'HTTP/1.1 +20 OK\r\n\r\n'],
    ['a tab before the status', 'HTTP/1.1\t200 OK\r\n\r\n'],
    ['NUL in the reason phrase', 'HTTP/1.1 200 O\0K\r\n\r\n'],
    ['an empty line first', `\r\n${OK}\r\n`],
    ['a change of protocol', 'HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n'],
    ['an interim response with a length', `HTTP/1.1 103 Hints\r\nContent-Length: 1\r\n\r\n${OK}\r\n`],
    ['an interim response of version 1.0', `HTTP/1.0 103 Hints\r\n\r\n${OK}\r\n`],
    ['an interim response with Connection: close', `HTTP/1.1 103 Hints\r\nConnection: close\r\n\r\n${OK}\r\n`],
    ['lines that end in LF', 'HTTP/1.1 200 OK\nContent-Length: 0\n\n'],
    ['an empty line that is LF', `${OK}Content-Length: 0\r\n\n`],
    ['a line that ends in CR', `${OK}X: a\rContent-Length: 0\r\n\r\n`],
    ['an empty line that is CR', `${OK}X: a\r\n\rContent-Length: 0\r\n\r\n`],
    ['NUL in a value', `${OK}X: a\0b\r\n\r\n`],
    ['a control character in a value', `${OK}X: a\x7fb\r\n\r\n`],
    ['a folded line', `${OK}X: a\r\n b\r\n\r\n`],
    ['a folded first line', `${OK} X: a\r\n\r\n`],
    ['a space before the colon', `${OK}Content-Length : 0\r\n\r\n`],
    ['a space in a name', `${OK}X Y: a\r\n\r\n`],
    ['no name', `${OK}: a\r\n\r\n`],
    ['no colon', `${OK}Content-Length\r\n\r\n`],
    ['a name beyond ASCII', `${OK}X\xe9: a\r\n\r\n`],
    ['two lengths', `${OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\na`],
    ['the same length twice', `${OK}Content-Length: 1\r\nContent-Length: 1\r\n\r\na`],
    ['a list of lengths', `${OK}Content-Length: 1, 1\r\n\r\na`],
    ['a length with a sign', `${OK}Content-Length: +1\r\n\r\na`],
    ['a negative length', `${OK}Content-Length: -1\r\n\r\na`],
    ['a hexadecimal length', `${OK}Content-Length: 0x1\r\n\r\na`],
    ['a fraction as length', `${OK}Content-Length: 1.0\r\n\r\na`],
    ['an empty length', `${OK}Content-Length:\r\n\r\n`],
    ['a length that exceeds all numbers', `${OK}Content-Length: 10000000000000000\r\n\r\n`],
    ['a length and chunks', `${OK}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['chunks and a length', `${OK}Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n`],
    ['an encoding that is not chunked', `${OK}Transfer-Encoding: identity\r\n\r\n`],
    ['an encoding before chunked', `${OK}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
    ['an encoding after chunked', `${OK}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
    ['an empty encoding', `${OK}Transfer-Encoding:\r\n\r\n`],
    ['chunked twice', `${OK}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['a tab after chunked', `${OK}Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n`],
    ['chunked with a parameter', `${OK}Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n`],
    ['chunks in version 1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['a chunk without size', `${CHUNKED}\r\n\r\n`],
    ['a chunk size with a sign', `${CHUNKED}+1\r\na\r\n0\r\n\r\n`],
    ['a negative chunk size', `${CHUNKED}-1\r\na\r\n0\r\n\r\n`],
    ['a chunk size with a prefix', `${CHUNKED}0x1\r\na\r\n0\r\n\r\n`],
    ['a chunk size after a space', `${CHUNKED} 1\r\na\r\n0\r\n\r\n`],
    ['a chunk size before a space', `${CHUNKED}1 \r\na\r\n0\r\n\r\n`],
    ['a chunk size that exceeds all numbers', `${CHUNKED}10000000000000000\r\n`],
    ['a chunk size that ends in LF', `${CHUNKED}1\na\r\n0\r\n\r\n`],
    ['CR in a chunk extension', `${CHUNKED}1;a\rb\r\na\r\n0\r\n\r\n`],
    ['a chunk extension that is none', `${CHUNKED}1;a=b c\r\na\r\n0\r\n\r\n`],
    ['a chunk longer than its size', `${CHUNKED}1\r\nab\r\n0\r\n\r\n`],
    ['a chunk that ends in LF', `${CHUNKED}1\r\na\n0\r\n\r\n`],
    ['a chunk that ends in CR', `${CHUNKED}1\r\na\r0\r\n\r\n`],
    ['a trailer that is none', `${CHUNKED}0\r\nX Y\r\n\r\n`],
    ['a length among the trailers', `${CHUNKED}0\r\nContent-Length: 1\r\n\r\n`],
  ])('rejects %s', (_what, text) => {
    expect(readText(text)).toMatchObject({ outcome: 'invalid', reason: expect.stringMatching(/\w/) });
  });

  it.each([
    ['a head', `${OK}X: `, '', '\r\n\r\n', 16 * 1024],
    ['a head of many lines', OK, 'X: 1\r\n', '\r\n', 16 * 1024],
    ['trailers', `${CHUNKED}0\r\n`, 'X: 1\r\n', '\r\n', 16 * 1024],
    ['a chunk size with extensions', `${CHUNKED}0`, ';a', '\r\n\r\n', 1024],
  ])('rejects %s over the limit only', (_what, before, repeated, after, limit) => {
    // Data before the limited part is not counted.
    const outside = before.startsWith(CHUNKED) ? before.indexOf('0', CHUNKED.length) + (limit > 1024 ? 3 : 0) : 0;
    const counted = after === '\r\n\r\n' && limit === 1024 ? 2 : after.length;
    const room = limit - (before.length - outside) - counted;
    const fill = (bytes: number) => (repeated || 'x').repeat(Math.floor(bytes / (repeated || 'x').length));
    const atLimit = Buffer.from(before + fill(room) + after);
    const beyond = Buffer.from(before + fill(room + (repeated || 'x').length) + after);
    expect(read(atLimit).outcome).toBe('complete');
    expect(read(beyond).outcome).toBe('too-large');
    expect(read(...Array.from(atLimit, (byte) => Buffer.of(byte))).outcome).toBe('complete');
    expect(read(...Array.from(beyond, (byte) => Buffer.of(byte))).outcome).toBe('too-large');
  });

  it('rejects an overlong line before its end', () => {
    expect(read(Buffer.from(`${OK}X: ${'x'.repeat(16 * 1024)}`)).outcome).toBe('too-large');
    expect(read(Buffer.from(`${CHUNKED}${'0'.repeat(1025)}`)).outcome).toBe('too-large');
  });

  it.each([
    ['nothing', ''],
    ['half a status line', 'HTTP/1.'],
    ['half a head', `${OK}Content-Length: 0\r\n`],
    ['only an interim response', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['less than announced', `${OK}Content-Length: 2\r\n\r\na`],
    ['no last chunk', `${CHUNKED}1\r\na\r\n`],
    ['half a chunk', `${CHUNKED}2\r\na`],
    ['no end of the trailers', `${CHUNKED}0\r\nX: 1\r\n`],
  ])('treats %s as an incomplete response', (_what, text) => {
    expect(readText(text).outcome).toBe('incomplete');
  });

  it('passes small chunks on together, and large ones without moving them', () => {
    const parts: string[] = [];
    const parser = parserOf({
      onHead: () => undefined,
      onBody: (buffer, start, end) => void parts.push(buffer.toString('latin1', start, end)),
    });
    const small = Array.from({ length: 5_000 }, (_, at) => String.fromCharCode(97 + (at % 26)));
    const large = 'L'.repeat(5_000);
    const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
    const bytes = Buffer.from(`${CHUNKED}${small.map(chunk).join('')}${chunk(large)}${chunk('x')}0\r\n\r\n`);
    parser.execute(bytes, 0, bytes.length);
    expect(parser.done).toBe(true);
    expect(parts).toEqual([small.join(''), `${large}x`]);
  });

  it('consumes no large chunk after its handler has halted it', () => {
    const parts: number[] = [];
    const parser: MessageParser<ResponseHead> = parserOf({
      onHead: () => undefined,
      onBody: (_buffer, start, end) => {
        parts.push(end - start);
        parser.halted = true;
      },
    });
    const bytes = Buffer.from(`${CHUNKED}1\r\na\r\n1388\r\n${'b'.repeat(5_000)}\r\n0\r\n\r\n`);
    const at = parser.execute(bytes, 0, bytes.length);
    expect(parts).toEqual([1]);
    parser.halted = false;
    parser.execute(bytes, at, bytes.length);
    expect(parts).toEqual([1, 5_000]);
    expect(parser.done).toBe(true);
  });

  it('passes on the body before an error', () => {
    const parts: string[] = [];
    const parser = parserOf({
      onHead: () => undefined,
      onBody: (buffer, start, end) => void parts.push(buffer.toString('latin1', start, end)),
    });
    const bytes = Buffer.from(`${CHUNKED}1\r\na\r\n1\r\nb\r\nx`);
    expect(() => parser.execute(bytes, 0, bytes.length)).not.toThrow();
    const rest = Buffer.from('\r\n1\r\nc');
    expect(() => parser.execute(rest, 0, rest.length)).toThrow('invalid chunk size');
    expect(parts).toEqual(['ab']);
  });
});
