import { describe, expect, it } from 'vitest';
import { comparableUri, isPlain } from './comparable-uri.ts';
import { Exposure } from './exposure.ts';
import { decodeFully, uriForms } from './uri-forms.ts';

describe('the forms of a uri', () => {
  it.each([
    ['file:///docs/a', ['file:///docs/a']],
    ['file:///a/%252e%252e/b', ['file:///a/%252e%252e/b', 'file:///a/%2e%2e/b', 'file:///a/../b', 'file:///b']],
    [' FILE:/a\tb ', [' FILE:/a\tb ', 'FILE:/a\tb', ' FILE:/ab ', 'file:///ab', 'FILE:/ab']],
    ['x:///a\\..\\b', ['x:///a\\..\\b', 'x:///b']],
    ['x:a//../b', ['x:a//../b', 'x:a/b', 'x:b']],
    ['https://h', ['https://h', 'https://h/']],
    ['x:a\0b', ['x:a\0b', 'x:a', 'x:a%00b']],
    ['x:a%00b', ['x:a%00b', 'x:a\0b', 'x:a']],
  ])('%j', (uri, expected) => {
    expect(new Set(uriForms(uri))).toEqual(new Set(expected));
  });

  it('are few for all that servers list', () => {
    for (const uri of ['KBInfo://A/b c', 'memo:a b', 'file:///docs/caf%C3%A9 ü', 'https://h:443/a%2Fb?c=%20#d']) {
      expect(uriForms(uri)?.size).toBeLessThan(6);
    }
  });

  it('are too many, or too long, only for what no server lists', () => {
    expect(uriForms(`x:///%${'25'.repeat(62)}41`)?.size).toBe(64);
    expect(uriForms(`x:///%${'25'.repeat(63)}41`)).toBeUndefined();
    for (const start of ['x:///', 'x:///%41']) {
      expect(comparableUri(start.padEnd(8_192, 'a'))?.forms.length).toBe(1);
      expect(comparableUri(start.padEnd(8_193, 'a'))?.forms.length).toBeUndefined();
    }
    // The longest listed uri, in characters that take nine each when they are encoded.
    expect(uriForms(`x:///${'日'.repeat(1_019)}`)?.size).toBe(2);
  });
});

describe('a plain uri', () => {
  it.each([
    'file:///docs/a.txt',
    'https://example.com/a/b-c_d',
    'http://localhost:3000/x',
    'docs://guide/ümlaut',
    'x:///a',
  ])('%s has no other form', (uri) => {
    expect(isPlain(uri)).toBe(true);
    expect(new Set([...(uriForms(uri) ?? [])].map(decodeFully))).toEqual(new Set([uri]));
  });

  it.each([
    'file:///a//b',
    'file:///a/',
    'file:///.a',
    'file://h/a',
    'file:///a%20b',
    'file:///a b',
    'file:///a\n',
    'file:///a?b',
    'https://h',
    'https://127.1/a',
    'https://h:443/a',
    'https://xn--a/b',
    'https://H/a',
    'https:/h/a',
    'wss://h:443/a',
    'http:///a',
    'x://u@h/a',
    'x:a',
  ])('%s is none', (uri) => {
    expect(isPlain(uri)).toBe(false);
  });
});

describe('a hostile uri', () => {
  const globs = Array.from({ length: 200 }, (_, at) => `*${'a'.repeat(20)}?${at}*`);
  const exposure = new Exposure({ expose: { resources: { allow: ['file:///*'], deny: globs } } });
  const dots = Array.from({ length: 20 }, (_, at) => `a/%${'25'.repeat(at)}2e%${'25'.repeat(at)}2e/`).join('');
  it.each([
    ['encoded percent signs', `file:///${'%25'.repeat(350_000)}`],
    ['dot segments', `file:///${'../'.repeat(350_000)}`],
    ['tabs', `file:///${'\t'.repeat(1_000_000)}`],
    ['the longest with percent signs', `file:///${'%25'.repeat(2_700)}`],
    ['the longest nested percent sign', `file:///%${'25'.repeat(4_000)}`],
    ['the longest with dot segments', `file:///${'a/../'.repeat(1_600)}`],
    ['the longest with backslashes', `file:///${'a\\..\\'.repeat(1_600)}`],
    ['the longest with tabs', `file:///${'\t'.repeat(8_000)}`],
    ['the longest with spaces', `${' '.repeat(8_000)}x`],
    ['a long host', `https://${'ü'.repeat(4_000)}/`],
    ['many forms', `file:///${dots}`],
    ['the longest with U+0000', `file:///${'\0'.repeat(8_000)}`],
    ['the longest with encoded U+0000', `file:///${'%00'.repeat(2_700)}`],
  ])('with %s costs little', (_, uri) => {
    exposure.exposes('resource', uri);
    const before = process.cpuUsage();
    for (let run = 0; run < 10; run++) exposure.exposes('resource', uri);
    const { user, system } = process.cpuUsage(before);
    // About a hundredth of that on an idle machine.
    expect((user + system) / 1000 / 10).toBeLessThan(200);
  });

  it('is hidden as soon as there is a rule', () => {
    expect(comparableUri(`file:///${dots}`)).toBeUndefined();
    expect(exposure.exposes('resource', `file:///${dots}`)).toBe(false);
    expect(new Exposure({}).exposes('resource', `file:///${dots}`)).toBe(true);
  });
});
