import { describe, expect, it } from 'vitest';
import { reply } from '../../../../../test/fixtures/raw-client.ts';
import { LIST_END } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { client, eras, errorOf, relayTests } from '../../../testing/relay.ts';

const relay = relayTests();
const { register, upstreamWith } = relay;

/** Scripts of an upstream that lists one resource and returns links to `linked://it`. */
function linking(word: string) {
  const link = '{"type":"resource_link","uri":"linked://it","name":"it"}';
  return {
    'tools/call': `{"content":[${link}],"resultType":"complete"}`,
    'prompts/list': `{"prompts":[{"name":"ask"}],${LIST_END}`,
    'prompts/get': `{"messages":[{"role":"user","content":${link}}],"resultType":"complete"}`,
    'resources/list': `{"resources":[{"uri":"${word}://listed","name":"l"}],${LIST_END}`,
    'resources/read': `{"contents":[{"uri":"x","text":"read ${word}"}],${LIST_END}`,
  };
}

describe.each(eras)('a linked resource (%s)', (era) => {
  it.each(['json', 'stream'] as const)('is read from the forward that sent the link first (%s)', async (form) => {
    const one = await upstreamWith(linking('one'), { form });
    const two = await upstreamWith(linking('two'), { form });
    const url = await register(one.url, { prefix: '1.' });
    const namespace = new URL(url).pathname.split('/')[1];
    const second = { name: `${namespace}-2`, address: two.url, namespace, prefix: '2.' };
    await relay.service.register('forwards', second);
    const caller = await client(era, url);
    const read = async () => caller.call('resources/read', '{"uri":"linked://it"}');
    expect(errorOf(await read()).code).toBe(-32602);
    await caller.call('tools/call', '{"name":"2.a"}');
    expect(reply(await read())).toContain('read two');
    await caller.call('prompts/get', '{"name":"1.ask"}');
    expect(reply(await read())).toContain('read two');

    // A resource that becomes listed is read where it is listed; one whose sender is gone, at the only possible
    // forward.
    two.scripts['resources/list'] = `{"resources":[{"uri":"linked://it","name":"l"}],${LIST_END}`;
    await relay.service.manage('POST', `/forwards/${second.name}/refreshes`);
    expect(reply(await read())).toContain('read two');
    await caller.call('tools/call', '{"name":"2.a"}');
    await relay.service.manage('DELETE', `/forwards/${second.name}`);
    expect(reply(await read())).toContain('read one');
  });
});
