import { describe, expect, it } from 'vitest';
import { reply } from '../../../../../test/fixtures/raw-client.ts';
import { LIST_END } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { client, eras, errorOf, lastCall, relayTests } from '../../../testing/relay.ts';

const relay = relayTests();
const { register, upstreamWith } = relay;

describe.each(eras)('resources (%s)', (era) => {
  const resources = {
    'resources/list': `{"resources":[{"uri":"test://listed","name":"l"},{"uri":"test://t/exact","name":"e"}],${LIST_END}`,
    'resources/templates/list': `{"resourceTemplates":[{"uriTemplate":"test://t/{id}","name":"t"},{"uriTemplate":"test://f/{+path}","name":"f"}],${LIST_END}`,
    'resources/read': `{"contents":[{"uri":"x","text":"read"}],${LIST_END}`,
  };
  const read = async (url: string, uri: string) =>
    (await client(era, url)).call('resources/read', JSON.stringify({ uri }));

  it('are read by the requested uri: listed, of a template, or unlisted', async () => {
    const upstream = await upstreamWith(resources);
    const url = await register(upstream.url, { prefix: 'p-' });
    for (const uri of [
      'test://listed',
      'test://t/7',
      'test://t/exact',
      'test://f/a/b/c',
      'other://linked',
      'test://t/a/b',
      'grüße://x y',
    ]) {
      expect(reply(await read(url, uri))).toContain('"text":"read"');
      expect(lastCall(upstream, 'resources/read').params.uri).toBe(uri);
    }
    expect(upstream.count('resources/read')).toBe(7);
  });

  it('of several upstreams are read where they are listed or else where a template matches, never by guessing', async () => {
    const one = await upstreamWith({ ...resources, 'resources/read': `{"contents":[{"text":"one"}],${LIST_END}` });
    const two = await upstreamWith({
      'resources/list': `{"resources":[{"uri":"test://t/7","name":"seven"}],${LIST_END}`,
      'resources/templates/list': `{"resourceTemplates":[{"uriTemplate":"test://{a}/{b}","name":"wide"}],${LIST_END}`,
      'resources/read': `{"contents":[{"text":"two"}],${LIST_END}`,
    });
    const url = await register(one.url);
    const namespace = new URL(url).pathname.split('/')[1];
    await relay.service.register('forwards', { name: `${namespace}-two`, address: two.url, namespace });
    const who = async (uri: string) => JSON.parse(reply(await read(url, uri))).result?.contents[0].text;
    expect(await who('test://listed')).toBe('one');
    expect(await who('test://t/7')).toBe('two');
    expect(await who('test://t/8')).toBe('one');
    expect(await who('test://z/8')).toBe('two');
    expect(errorOf(await read(url, 'other://linked'))).toEqual({
      code: -32602,
      message: 'resource not found: other://linked',
      data: { uri: 'other://linked' },
    });
    // The template itself is not a resource.
    expect(errorOf(await read(url, 'test://f/{+path'))).toBeUndefined();
  });

  it('without an executor return an error', async () => {
    const namespace = `manual-${era}`;
    await relay.service.register('resources', { name: 'r', location: 'x://r', type: 'Archive', namespace });
    const response = await read(relay.service.url(namespace), 'x://r');
    expect([response.status, errorOf(response)]).toEqual([
      200,
      { code: -32603, message: 'There is no host registered for service Archive' },
    ]);
    expect(errorOf(await read(relay.service.url(namespace), 'x://s')).message).toBe('resource not found: x://s');
  });
});
