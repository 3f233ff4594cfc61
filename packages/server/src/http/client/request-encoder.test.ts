import { describe, expect, it } from 'vitest';
import { type EncodedRequest, RequestEncoder } from './request-writer.ts';
import { ScriptedBody } from './scripted-body.fixture.ts';

const encoder = () => new RequestEncoder(new URL('http://user:secret@Example.com:8080/mcp?key=1'));
const text = (encoded: EncodedRequest) =>
  [encoded]
    .flat()
    .map((part) => part.toString('latin1'))
    .join('');

describe('RequestEncoder', () => {
  it('encodes head and body together', () => {
    const headers = ['content-type', 'application/json', 'X-Odd-Case', '', 'x-text', 'caf\xe9\t~'];
    expect(encoder().encode({ method: 'POST', headers, body: '{}' })).toBe(
      'POST /mcp?key=1 HTTP/1.1\r\nhost: example.com:8080\r\nconnection: keep-alive\r\n' +
        'content-type: application/json\r\nX-Odd-Case: \r\nx-text: caf\xe9\t~\r\ncontent-length: 2\r\n\r\n{}',
    );
  });

  it('sends the headers of each request, whatever the last one had', () => {
    const reused = encoder();
    const headers = ['mcp-session-id', '1', 'x', 'a'];
    const sent = () => text(reused.encode({ method: 'GET', headers })).split('keep-alive\r\n')[1];
    expect(sent()).toBe('mcp-session-id: 1\r\nx: a\r\n\r\n');
    expect(sent()).toBe('mcp-session-id: 1\r\nx: a\r\n\r\n');
    headers[1] = '2';
    expect(sent()).toBe('mcp-session-id: 2\r\nx: a\r\n\r\n');
    headers.push('x', 'b'.repeat(1_000));
    expect(sent()).toBe(`mcp-session-id: 2\r\nx: a\r\nx: ${'b'.repeat(1_000)}\r\n\r\n`);
    headers.splice(2);
    expect(sent()).toBe('mcp-session-id: 2\r\n\r\n');
    headers[1] = '\n';
    expect(sent).toThrow('invalid value of header mcp-session-id');
    headers[1] = '2';
    expect(sent()).toBe('mcp-session-id: 2\r\n\r\n');
  });

  it('sends the method and path of each request, whatever the last one had', () => {
    const reused = encoder();
    const headers = ['x', 'a'];
    const requests = [
      { method: 'POST', headers },
      { method: 'POST', headers },
      { method: 'POST', headers, path: '/other' },
      { method: 'GET', headers, path: '/other' },
      { method: 'VERSION-CONTROL', headers, path: '/other' },
      { method: 'VERSION-CONTROL', headers },
      { method: 'POST', headers },
      { method: 'POST', headers: [] },
    ];
    for (const request of [...requests, ...requests]) expect(reused.encode(request)).toBe(encoder().encode(request));
    for (const invalid of [{ method: '' }, { method: 'POST', path: '' }, { method: 'CONNECT' }]) {
      expect(() => encoder().encode({ headers: [], ...invalid })).toThrow(TypeError);
      expect(() => reused.encode({ headers, ...invalid })).toThrow(TypeError);
    }
  });

  it.each([
    ['ASCII', 'a', 'a'],
    ['latin1', 'é', '\xc3\xa9'],
    ['beyond', '😀', '\xf0\x9f\x98\x80'],
    ['half of a pair', 'a\ud83d', 'a\xef\xbf\xbd'],
    ['bytes', Buffer.of(0, 255), '\0\xff'],
    ['parts', [Buffer.of(0), Buffer.of(255), Buffer.alloc(0)], '\0\xff'],
    ['nothing', '', ''],
  ])('encodes a body with its length in bytes: %s', (_what, body, bytes) => {
    const encoded = text(encoder().encode({ method: 'POST', headers: ['x', 'caf\xe9'], body }));
    expect(encoded).toMatch(/\r\nx: caf\xe9\r\n/);
    expect(encoded.slice(encoded.indexOf('content-length'))).toBe(`content-length: ${bytes.length}\r\n\r\n${bytes}`);
  });

  it('announces an empty body only for methods that expect one', () => {
    for (const method of ['POST', 'PUT', 'PATCH']) {
      expect(encoder().encode({ method, headers: [] })).toMatch(/\r\ncontent-length: 0\r\n\r\n$/);
    }
    for (const method of ['GET', 'HEAD', 'DELETE', 'OPTIONS']) {
      expect(encoder().encode({ method, headers: [] })).toMatch(/\r\nconnection: keep-alive\r\n\r\n$/);
    }
  });

  it.each(['GET', 'DELETE', 'PROPFIND', 'm-search', 'get', "!#$%&'*+.^_`|~"])('accepts the method %s', (method) => {
    expect(text(encoder().encode({ method, headers: [] })).split(' ')[0]).toBe(method);
  });

  it.each(['', 'GET ', 'G\r\nX', 'G/T', 'GÉT', 'CONNECT'])('rejects the method %j', (method) => {
    expect(() => encoder().encode({ method, headers: [] })).toThrow(/method/);
  });

  it.each(['/', '/x?y', '//elsewhere/', '/a%2Fb/../c;d?e=%zz&f="<{\\}>"#g'])(
    'passes on the path %j byte for byte',
    (path) => {
      expect(text(encoder().encode({ method: 'DELETE', headers: [], path })).split('\r\n')[0]).toBe(
        `DELETE ${path} HTTP/1.1`,
      );
    },
  );

  it('encodes only the head of a streamed body, with its length or as chunked', () => {
    const body = (length: number | undefined) => new ScriptedBody(length);
    const head = (length: number | undefined) =>
      text(encoder().encode({ method: 'DELETE', headers: [], body: body(length) })).split('keep-alive\r\n')[1];
    expect(head(0)).toBe('content-length: 0\r\n\r\n');
    expect(head(2 ** 40)).toBe('content-length: 1099511627776\r\n\r\n');
    expect(head(undefined)).toBe('transfer-encoding: chunked\r\n\r\n');
    for (const length of [-1, 0.5, Number.NaN, 2 ** 70]) expect(() => head(length)).toThrow(TypeError);
  });

  it.each([
    ['CR LF in a value', ['x', 'a\r\nb: c']],
    ['CR in a value', ['x', 'a\rb']],
    ['LF in a value', ['x', 'a\nb']],
    ['NUL in a value', ['x', 'a\0b']],
    ['a control character in a value', ['x', 'a\x7fb']],
    ['a value beyond latin1, the low byte of which is LF', ['x', 'a\u010ab']],
    ['no value', ['x']],
    ['no name', ['', 'a']],
    ['a space in a name', ['x y', 'a']],
    ['a colon in a name', ['x:', 'a']],
    ['CR LF in a name', ['x: a\r\ny', 'a']],
    ['a name beyond ASCII', ['x\xe9', 'a']],
    ['a name beyond latin1', ['x\u010a', 'a']],
    ...['Host', 'content-length', 'Transfer-Encoding', 'CONNECTION', 'keep-alive', 'upgrade', 'Expect'].map(
      (name): [string, string[]] => [`header ${name}`, [name, '1']],
    ),
  ])('rejects %s, also the second time', (_what, headers) => {
    const to = encoder();
    const encode = () => to.encode({ method: 'POST', headers: ['ok', 'ok', ...headers], body: 'x' });
    expect(encode).toThrow(TypeError);
    expect(encode).toThrow(TypeError);
  });

  it.each(['', 'x', '*', 'http://elsewhere/', '/a b', '/a\r\nx: y', '/\0', '/\x7f', '/é', '/\u0120'])(
    'rejects the path %j',
    (path) => {
      expect(() => encoder().encode({ method: 'GET', headers: [], path })).toThrow(TypeError);
    },
  );

  it('does not contain an invalid value in the error', () => {
    expect(() => encoder().encode({ method: 'GET', headers: ['authorization', 'secret\n'] })).toThrow(
      /^invalid value of header authorization$/,
    );
  });

  it('does not send dropped headers in any notation, also the second time', () => {
    const droppedHeaders = new Set(['x-forwarded-user', 'x-sluice-authorization', 'accept-encoding']);
    const defaultHeaders = ['accept-encoding', 'gzip'];
    const to = new RequestEncoder(new URL('http://a/'), { droppedHeaders, defaultHeaders });
    const sent = (...headers: string[]) => text(to.encode({ method: 'GET', headers })).split('keep-alive\r\n')[1];
    for (const _ of [1, 2, 3]) {
      expect(sent('X-Forwarded-User', 'ann', 'x', '1')).toBe('x: 1\r\naccept-encoding: gzip\r\n\r\n');
      expect(sent('x_FORWARDED_user', 'ann', 'x-sluice-authorization', 'b', 'Accept-Encoding', 'br')).toBe(
        'accept-encoding: gzip\r\n\r\n',
      );
    }
    expect(sent('x-forwarded-user', 'long'.repeat(1_000), 'x-forwarded-users', '1')).toBe(
      'x-forwarded-users: 1\r\naccept-encoding: gzip\r\n\r\n',
    );
    for (let n = 0; n < 1_000; n++) sent(`x-${n}`, '');
    expect(sent('X_Sluice-Authorization', 'b')).toBe('accept-encoding: gzip\r\n\r\n');
  });

  it('drops other headers from the next request on, although the same head was sent before', () => {
    const options = { droppedHeaders: new Set(['x-user']) };
    const to = new RequestEncoder(new URL('http://a/'), options);
    const sent = () => text(to.encode({ method: 'GET', headers: ['x-user', 'ann', 'x-name', 'bob'] }));
    for (const _ of [1, 2]) expect(sent()).toMatch(/alive\r\nx-name: bob\r\n\r\n$/);
    options.droppedHeaders = new Set(['x-name']);
    for (const _ of [1, 2]) expect(sent()).toMatch(/alive\r\nx-user: ann\r\n\r\n$/);
  });

  it('accepts further names when the cache is full', () => {
    const to = encoder();
    for (let n = 0; n < 1_000; n++) to.encode({ method: 'GET', headers: [`x-${n}`, ''] });
    expect(to.encode({ method: 'GET', headers: ['x-new', '1'] })).toContain('x-new: 1');
  });
});
