import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { propertyRuns } from '../../../../../test/fixtures/seed.ts';
import { SecretMatcher, StreamRedactor } from './redaction.ts';

const SECRET = 'tok/en+"1\\u0';

/** Passes the parts through a redactor and returns its output. */
function redactParts(parts: readonly (string | Buffer)[], ...secrets: readonly string[]): string {
  const search = new SecretMatcher(secrets);
  const redactor = new StreamRedactor(() => search);
  const output = parts.map((part) => redactor.write(Buffer.from(part)));
  return Buffer.concat([...output, redactor.end()]).toString();
}

/** All ways to split a text into two chunks, and the one into single bytes. */
function splits(text: string): Buffer[][] {
  const bytes = Buffer.from(text);
  const pairs = Array.from(bytes, (_, at) => [bytes.subarray(0, at), bytes.subarray(at)]);
  return [...pairs, Array.from(bytes, (byte) => Buffer.of(byte))];
}

describe('redaction of a stream', () => {
  it.each([
    ['as it is', SECRET],
    ['in JSON', JSON.stringify(SECRET).slice(1, -1)],
    ['in JSON inside of JSON', JSON.stringify(JSON.stringify(SECRET).slice(1, -1)).slice(1, -1)],
    ['with escaped slashes', JSON.stringify(SECRET).slice(1, -1).replace('/', '\\/')],
    [
      'with all characters escaped',
      [...SECRET].map((c) => `\\u00${c.charCodeAt(0).toString(16).toUpperCase()}`).join(''),
    ],
    [
      'with escapes that are escaped',
      JSON.stringify('tok\\u002fen\\u002B').slice(1, -1) + JSON.stringify('"1\\u0').slice(1, -1),
    ],
  ])('removes a secret %s, however it is split', (_form, written) => {
    for (const parts of splits(`<ä ${written} to ${written}>`)) {
      expect(redactParts(parts, SECRET)).toBe(`<ä [REDACTED] to [REDACTED]>`);
    }
  });

  it('passes on other bytes unchanged, the beginnings of secrets included', () => {
    for (const text of ['to', 'tok/en+', 'tok/tok/en+"1\\u', '\\\\\\\\tok', 'tök/en+"1\\u0', 'TOK/EN+"1\\U0', '']) {
      for (const parts of [[text], ...splits(text)]) expect(redactParts(parts, SECRET)).toBe(text);
    }
    const binary = Buffer.from(Array.from({ length: 512 }, (_, at) => at % 256));
    const search = new SecretMatcher([SECRET]);
    expect(new StreamRedactor(() => search).write(binary)).toBe(binary);
  });

  it('passes on an event at once, without waiting for the next', () => {
    const redactor = new StreamRedactor(() => new SecretMatcher([SECRET]));
    expect(redactor.write(Buffer.from(`data: {"t":"tok"}\n\n`)).toString()).toBe(`data: {"t":"tok"}\n\n`);
    expect(redactor.write(Buffer.from('data: tok/en')).toString()).toBe('data: ');
  });

  it('finds each of several secrets, of those that begin alike the longest', () => {
    for (const parts of splits('abcdef abcdef-2 xyzxyz')) {
      expect(redactParts(parts, 'abcdef', 'xyzxyz', 'abcdef-2')).toBe('[REDACTED] [REDACTED] [REDACTED]');
    }
  });

  it('has the same result however text of parts of secrets is split', () => {
    const parts = [
      'tok',
      '/en+',
      '"1',
      '\\',
      'u0',
      '\\/',
      '\\u002f',
      '\\u00',
      '2B',
      '\\\\',
      'x',
      'tok/en',
      '\\"',
      SECRET,
    ];
    const texts = fc.array(fc.constantFrom(...parts), { maxLength: 12 }).map((found) => found.join(''));
    fc.assert(
      fc.property(texts, fc.array(fc.nat(40)), (text, lengths) => {
        let rest = Buffer.from(text);
        const chunks = lengths.map((length) => {
          const chunk = rest.subarray(0, length);
          rest = rest.subarray(length);
          return chunk;
        });
        expect(redactParts([...chunks, rest], SECRET, 'tok/en')).toBe(redactParts([text], SECRET, 'tok/en'));
      }),
      { numRuns: propertyRuns(2_000) },
    );
  });

  it('takes linear time for text that only looks like secrets', () => {
    const hostile = ['\\'.repeat(200_000), 'tok/en+"'.repeat(25_000), 't'.repeat(200_000), '\\u0074'.repeat(30_000)];
    for (const text of hostile) expect(redactParts([text], SECRET, 'a'.repeat(2_000))).toBe(text);
  });
});
