import { describe, expect, it } from 'vitest';
import { responseHeaders } from './proxy.ts';

describe('the headers of an answer', () => {
  it('go back in their order, without those of the connection', () => {
    const raw = ['Content-Length', '2', 'Connection', 'X-Hop', 'X-Hop', '1', 'Set-Cookie', 'a', 'set-cookie', 'b'];
    expect(responseHeaders(200, raw)).toEqual(['Content-Length', '2', 'Set-Cookie', 'a', 'set-cookie', 'b']);
  });

  it('say how long it is behind how it is to be stored, which Node.js would spell anew otherwise', () => {
    const stored = ['Content-Disposition', 'attachment; filename="æ¥.pdf"'];
    expect(responseHeaders(200, ['Content-Length', '2', ...stored])).toEqual([...stored, 'Content-Length', '2']);
  });

  it('have no length where there is no content', () => {
    expect(responseHeaders(204, ['Content-Length', '2', 'X-A', '1'])).toEqual(['X-A', '1']);
    expect(responseHeaders(304, ['Content-Length', '2'])).toEqual(['Content-Length', '2']);
  });
});
