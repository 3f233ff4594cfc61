import type { JsonObject } from '@sluice/protocol/json/parse';
import { describe, expect, it } from 'vitest';
import { ResourceLinkCache } from './resource-link-cache.ts';

const always = () => true;
const link = (uri: string) => ({ type: 'resource_link', uri, name: 'n' });

function responseWith(result: object): JsonObject {
  return JSON.parse(JSON.stringify({ jsonrpc: '2.0', id: 1, result }));
}

describe('links to resources', () => {
  it('are cached from tool results and prompts, by namespace', () => {
    const links = new ResourceLinkCache(always);
    links.record('a', 'one', responseWith({ content: [{ type: 'text', text: 'x' }, link('x://1'), link('x://2')] }));
    links.record('a', 'two', responseWith({ messages: [{ role: 'user', content: link('x://3') }] }));
    links.record('b', 'three', responseWith({ messages: [{ role: 'user', content: [link('x://1')] }] }));
    expect(['x://1', 'x://2', 'x://3', 'x://4'].map((uri) => links.find('a', uri))).toEqual([
      'one',
      'one',
      'two',
      undefined,
    ]);
    expect(links.find('b', 'x://1')).toBe('three');
  });

  it('belong to the forward that sent them first, until it is deleted', () => {
    const registered = new Set(['one', 'two']);
    const links = new ResourceLinkCache((forward) => registered.has(forward));
    links.record('a', 'one', responseWith({ content: [link('x://1'), link('x://2')] }));
    links.record('a', 'two', responseWith({ content: [link('x://1')] }));
    expect(links.find('a', 'x://1')).toBe('one');
    registered.delete('one');
    expect(links.find('a', 'x://1')).toBeUndefined();
    links.record('a', 'two', responseWith({ content: [link('x://1')] }));
    expect(links.find('a', 'x://1')).toBe('two');
    registered.add('one');
    expect(links.find('a', 'x://2'), 'that of a forward that was gone').toBeUndefined();
  });

  it('of one forward do not evict those of another', () => {
    const links = new ResourceLinkCache(always, 3);
    links.record('a', 'one', responseWith({ content: [link('x://1')] }));
    links.record('b', 'two', responseWith({ content: Array.from({ length: 10 }, (_, n) => link(`y://${n}`)) }));
    expect([links.find('a', 'x://1'), links.find('b', 'y://9'), links.find('b', 'y://0')]).toEqual([
      'one',
      'two',
      undefined,
    ]);
  });

  it('are evicted, the oldest first, beyond the limit', () => {
    const links = new ResourceLinkCache(always, 3);
    const uris = ['x://1', 'x://2', 'x://3'];
    links.record('a', 'one', responseWith({ content: uris.map(link) }));
    links.record('a', 'one', responseWith({ content: [link('x://1'), link('x://4')] }));
    expect([...uris, 'x://4'].map((uri) => links.find('a', uri))).toEqual(['one', undefined, 'one', 'one']);
  });

  it.each([
    ['one that is too long', { content: [link(`x://${'y'.repeat(4096)}`)] }],
    ['one without a uri', { content: [{ type: 'resource_link', name: 'x://1' }] }],
    ['something else of that name', { content: [{ type: 'text', text: '"resource_link"', uri: 'x://1' }] }],
    ['content of no form', { content: '"resource_link"', messages: [null, 'x', { content: [[]] }] }],
  ])('are not cached: %s', (_what, result) => {
    const links = new ResourceLinkCache(always);
    links.record('a', 'one', responseWith(result));
    links.record('a', 'one', { error: {} });
    links.record('a', 'one', { result: 'resource_link' });
    expect(links.find('a', 'x://1')).toBeUndefined();
    expect(links.find('a', `x://${'y'.repeat(4096)}`)).toBeUndefined();
  });
});
