import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { HeadEncoder, type HeadOptions } from './response-head.ts';

const OK: HeadOptions = {
  status: 200,
  reason: '',
  keepsAlive: true,
  sendsDate: true,
  hasBody: true,
  httpVersion: '1.1',
};
const JSON_TYPE = ['Content-Type', 'application/json'];

beforeEach(() => {
  vi.useFakeTimers({ now: Date.UTC(2026, 0, 2, 3, 4, 5), toFake: ['Date'] });
});

afterEach(() => {
  vi.useRealTimers();
});

test('a head has its header lines and those about length, date and connection', () => {
  const headers = ['X-B', 'caf\xe9', 'Content-Length', '2', ...JSON_TYPE];
  expect(new HeadEncoder(75_000).encode(headers, OK)).toEqual({
    text:
      'HTTP/1.1 200 OK\r\nX-B: caf\xe9\r\nContent-Type: application/json\r\nContent-Length: 2\r\n' +
      'Date: Fri, 02 Jan 2026 03:04:05 GMT\r\nConnection: keep-alive\r\nKeep-Alive: timeout=75\r\n\r\n',
    length: 2,
    chunked: false,
    keepsAlive: true,
  });
});

test('a head with a date gets no other one', () => {
  const encoder = new HeadEncoder(75_000);
  for (let count = 0; count < 3; count++) {
    const { text } = encoder.encode([...JSON_TYPE, 'date', 'Thu, 01 Jan 1970 00:00:00 GMT'], OK);
    expect(text.match(/^date: .*$/gim)).toEqual(['date: Thu, 01 Jan 1970 00:00:00 GMT']);
  }
});

test('a head is the same whatever the last one was', () => {
  const reused = new HeadEncoder(75_000);
  const heads: [readonly string[], Partial<HeadOptions>][] = [
    [[...JSON_TYPE, 'Content-Length', '10'], {}],
    [[...JSON_TYPE, 'Content-Length', '11'], {}],
    [[...JSON_TYPE, 'content-length', '12'], {}],
    [JSON_TYPE, {}],
    [JSON_TYPE, { httpVersion: '1.0' }],
    [[...JSON_TYPE, 'Content-Length', '13'], { hasBody: false }],
    [[...JSON_TYPE, 'Content-Length', '14'], { keepsAlive: false }],
    [[...JSON_TYPE, 'Content-Length', '14'], { status: 404 }],
    [[...JSON_TYPE, 'Content-Length', '14'], { status: 404, reason: 'Not Here' }],
    [[...JSON_TYPE, 'Date', 'Thu, 01 Jan 1970 00:00:00 GMT'], {}],
    [JSON_TYPE, { sendsDate: false }],
    [['Content-Type', 'text/plain', 'Content-Length', '15'], {}],
    [['X', 'a', ...JSON_TYPE, 'Content-Length', '16'], {}],
    [['Content-Length', '17'], {}],
    [[], { status: 204, hasBody: false }],
    [['X', 'x'.repeat(3_000)], {}],
  ];
  // Each twice, since a head is compared with the next ones once all of its lines are known.
  for (const [headers, options] of [...heads, ...heads, ...heads].flatMap((head) => [head, head])) {
    const expected = new HeadEncoder(75_000).encode(headers, { ...OK, ...options });
    expect(reused.encode(headers, { ...OK, ...options })).toEqual(expected);
  }
});

test('invalid lines are rejected, whatever the last head was', () => {
  const encoder = new HeadEncoder(75_000);
  for (let count = 0; count < 3; count++) {
    encoder.encode(JSON_TYPE, OK);
    for (const [name, value] of [
      ['X', 'a\nb'],
      ['X y', ''],
      ['Connection', 'close'],
      ['Content-Length', '-1'],
    ]) {
      expect(() => encoder.encode([...JSON_TYPE, name ?? '', value ?? ''], OK)).toThrow(TypeError);
    }
    expect(() => encoder.encode(JSON_TYPE, { ...OK, reason: 'a\r\nb' })).toThrow(TypeError);
  }
});
