import { describe, expect, it } from 'vitest';
import { changedHeaders, forwardHeaders, forwardHeadersPatch, parseReferences } from './forward-headers.ts';

function env(name: string): string {
  return `$\{env:${name}}`;
}

function file(name: string): string {
  return `$\{file:${name}}`;
}

const TOKEN = env('SERVICE_SECRET_TOKEN');

describe('headers of a forward', () => {
  it.each([
    [{ Authorization: `Bearer ${TOKEN}` }],
    [{ 'x-key': file('crm-token.1_a'), 'X-Other': `${TOKEN}:${file('..data')} $ {x}` }],
    [{ 'user-agent': 'crm/1.0 (a; b)', 'Accept-Language': 'de' }],
    [{ ['__proto__']: TOKEN }],
    [{}],
  ])('%j are accepted as written', (headers) => {
    expect(forwardHeaders.parse(headers)).toEqual(headers);
    expect(Object.keys(forwardHeaders.parse(headers))).toEqual(Object.keys(headers));
  });

  it.each<[object, RegExp]>([
    [{ authorization: 'Bearer abcdefgh' }, /^must contain a reference such as .* only accept-language and user-agent/],
    [{ 'x-key': env('HOME') }, /only variables whose names begin with SERVICE_SECRET_ are allowed/],
    [{ 'x-key': env('SERVICE_SECRET_') }, /only variables/],
    [{ 'x-key': env('SERVICE_SECRET_ORIGINS') }, /only variables/],
    [{ 'user-agent': env('SERVICE_SESSION_KEY') }, /only variables/],
    [{ 'x-key': file('../outside') }, /expected the name of a file/],
    [{ 'x-key': file('..') }, /expected the name of a file/],
    [{ 'x-key': file('') }, /expected the name of a file/],
    [{ 'x-key': file('/proc/self/environ') }, /expected the name of a file/],
    [{ 'x-key': `$\{vault:x} ${TOKEN}` }, /that is no reference/],
    [{ 'x-key': `${TOKEN} $\{env:` }, /that is no reference/],
    [{ 'x-key': `${TOKEN}\r\nx: y` }, /printable ASCII/],
    [{ 'x-key': `${TOKEN} ` }, /printable ASCII/],
    [{ 'user-agent': '' }, /not empty/],
    [{ 'user-agent': 'x'.repeat(8_193) }, /at most 8192/],
    [{ 'user-agent': 'a', 'User-Agent': 'b' }, /is a duplicate/],
    [{ 'a b': TOKEN }, /must be a header name/],
    [{ '': TOKEN }, /must be a header name/],
    [{ 'x-key': null }, /must be a string/],
    [{ 'x-key': 5 }, /must be a string/],
    [Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`x-${at}`, TOKEN])), /at most 64 headers/],
  ])('%j are rejected without the value', (headers, message) => {
    const [issue] = forwardHeaders.safeParse(headers).error?.issues ?? [];
    expect(issue?.message).toMatch(message);
    expect(issue?.message).not.toContain('abcdefgh');
  });

  it.each([
    ...['Host', 'connection', 'keep-alive', 'TE', 'trailer', 'upgrade', 'transfer-encoding', 'expect', 'accept'],
    ...['Content-Type', 'content-language', 'MCP-Session-Id', 'mcp-x', 'last-event-id', 'x-service-hops', 'Proxy-X'],
  ])('must not contain %s', (name) => {
    const [issue] = forwardHeaders.safeParse({ [name]: TOKEN }).error?.issues ?? [];
    expect(issue).toMatchObject({ path: [name], message: 'is set by the service itself' });
  });

  it.each(['x a', 'ä', ''])('named %j cannot be removed: there are none', (name) => {
    const [issue] = forwardHeadersPatch.safeParse({ [name]: null }).error?.issues ?? [];
    expect(issue).toMatchObject({ path: [name], message: 'must be a header name' });
  });

  it('are changed by name, regardless of case', () => {
    const patch = forwardHeadersPatch.parse({ 'x-a': null, 'X-B': TOKEN, none: null });
    expect(changedHeaders({ 'X-A': TOKEN, 'x-b': file('b'), c: file('c') }, patch)).toEqual({
      c: file('c'),
      'X-B': TOKEN,
    });
    expect(changedHeaders({ a: TOKEN }, undefined)).toEqual({ a: TOKEN });
    expect(changedHeaders({ a: TOKEN }, { A: null })).toBeUndefined();
    expect(changedHeaders({ a: TOKEN }, null)).toBeUndefined();
  });
});

it('references are found in a value, with the text between them', () => {
  const [first, second] = [env('A'), file('b')];
  expect(parseReferences(`x ${first}${second}y`)).toEqual([
    'x ',
    { kind: 'env', name: 'A', text: first },
    { kind: 'file', name: 'b', text: second },
    'y',
  ]);
  expect(parseReferences('plain')).toEqual(['plain']);
  expect(parseReferences('')).toEqual([]);
});
