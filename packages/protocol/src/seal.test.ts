import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { TokenSealer } from './seal.ts';

const sealer = new TokenSealer(randomBytes(32));

it.each(['', 'x', '{"ü":"😀"}', 'y'.repeat(100_000)])('a sealed text opens to the same text', (text) => {
  expect(sealer.open('session', sealer.seal('session', text))).toBe(text);
});

it('sealing twice gives different tokens, both fit for a header', () => {
  const tokens = new Set(Array.from({ length: 100 }, () => sealer.seal('session', 'same')));
  expect(tokens.size).toBe(100);
  for (const token of tokens) expect(token).toMatch(/^[A-Za-z0-9_-]+$/);
});

it('a token opens for its purpose alone', () => {
  const token = sealer.seal('requestState', 'x');
  expect(sealer.open('session', token)).toBeUndefined();
  expect(sealer.open('eventId', token)).toBeUndefined();
  expect(sealer.open('requestState', token)).toBe('x');
});

it('a token opens with its key alone', () => {
  expect(new TokenSealer(randomBytes(32)).open('session', sealer.seal('session', 'x'))).toBeUndefined();
});

it('a token with any character changed, added or removed does not open', () => {
  const token = sealer.seal('session', 'a text');
  for (let at = 0; at < token.length; at++) {
    const altered = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
    expect(sealer.open('session', altered)).toBeUndefined();
    expect(sealer.open('session', token.slice(0, at))).toBeUndefined();
    expect(sealer.open('session', token.slice(at + 1))).toBeUndefined();
  }
  for (const encoding of [`${token}=`, `${token} `, ` ${token}`, `${token}A`, `${token}\n`]) {
    expect(sealer.open('session', encoding)).toBeUndefined();
  }
});

it.each(['', 'AAAA', 'A'.repeat(38), 'not base64 at all!', 'ü', '='])(
  '%j, which was never sealed, does not open',
  (token) => {
    expect(sealer.open('session', token)).toBeUndefined();
  },
);
