import { describe, expect, it } from 'vitest';
import { clientResponseHeaders } from './proxy.ts';

describe('the headers of a response', () => {
  it('are forwarded in order, without hop-by-hop headers', () => {
    const raw = ['Content-Length', '2', 'Connection', 'X-Hop', 'X-Hop', '1', 'Set-Cookie', 'a', 'set-cookie', 'b'];
    expect(clientResponseHeaders(200, raw)).toEqual(['Content-Length', '2', 'Set-Cookie', 'a', 'set-cookie', 'b']);
  });

  it('set no cookie of a sign-in', () => {
    const raw = [
      'Set-Cookie',
      'sluice=a; Path=/',
      'set-cookie',
      'b=1',
      'SET-COOKIE',
      '__Host-sluice-login=c',
      'X',
      'sluice=a',
    ];
    expect(clientResponseHeaders(200, raw)).toEqual(['set-cookie', 'b=1', 'X', 'sluice=a']);
  });

  it('have no length without content', () => {
    expect(clientResponseHeaders(204, ['Content-Length', '2', 'X-A', '1'])).toEqual(['X-A', '1']);
    expect(clientResponseHeaders(304, ['Content-Length', '2'])).toEqual(['Content-Length', '2']);
  });
});
