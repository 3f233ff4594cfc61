import { describe, expect, it } from 'vitest';
import { freePort } from '../../../../../test/fixtures/free-port.ts';
import { reply } from '../../../../../test/fixtures/raw-client.ts';
import { LIST_END, textResultText, toolList, toolText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { client, eras, errorOf, relayTests } from '../../../testing/relay.ts';

const relay = relayTests();
const { register, upstreamWith } = relay;

function offering(word: string) {
  return {
    'tools/list': toolList(toolText(`${word}-tool`)),
    'tools/call': textResultText(`called ${word}`),
    'prompts/list': `{"prompts":[{"name":"${word}-prompt"}],${LIST_END}`,
    'prompts/get': `{"messages":[],"description":"got ${word}","resultType":"complete"}`,
    'resources/list': `{"resources":[{"uri":"${word}://r","name":"r"}],${LIST_END}`,
    'resources/read': `{"contents":[{"uri":"x","text":"read ${word}"}],${LIST_END}`,
  };
}

describe.each(eras)('several forwards of a namespace, for a %s client', (era) => {
  it('are each called for their own entries, and an unreachable one fails its own calls only', async () => {
    const unreachable = await upstreamWith(offering('unreachable'), { port: await freePort() });
    const well = await upstreamWith(offering('well'));
    const url = await register(unreachable.url);
    const namespace = new URL(url).pathname.split('/')[1];
    await relay.service.register('forwards', { name: `${namespace}-well`, address: well.url, namespace });
    const caller = await client(era, url);
    const call = async (method: string, params: string) => reply(await caller.call(method, params));
    const calls = (word: string) => [
      call('tools/call', `{"name":"${word}-tool"}`),
      call('prompts/get', `{"name":"${word}-prompt"}`),
      call('resources/read', `{"uri":"${word}://r"}`),
    ];
    for (const word of ['unreachable', 'well']) {
      const responses = await Promise.all(calls(word));
      expect(responses.map((response) => /(called|got|read) (\w+)/.exec(response)?.[0])).toEqual(
        ['called', 'got', 'read'].map((done) => `${done} ${word}`),
      );
    }

    await unreachable.down();
    const failed = await caller.call('tools/call', '{"name":"unreachable-tool"}');
    expect(errorOf(failed).message).toContain('forwarded tool call failed');
    expect((await Promise.all(calls('well'))).join()).toMatch(/called well.*got well.*read well/);
    const lists = ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'];
    const listed = await Promise.all(lists.map((method) => call(method, '{}')));
    // Its last catalog remains.
    for (const word of [
      'unreachable-tool',
      'well-tool',
      'unreachable-prompt',
      'well-prompt',
      'unreachable://r',
      'well://r',
    ]) {
      expect(listed.join()).toContain(`"${word}"`);
    }
    expect((await client(era, url)).headers).toBeDefined();
  });

  it('may be registered while they are down', async () => {
    const well = await upstreamWith(offering('well'));
    const url = await register(`http://127.0.0.1:${await freePort()}/mcp`);
    const namespace = new URL(url).pathname.split('/')[1];
    await relay.service.register('forwards', { name: `${namespace}-well`, address: well.url, namespace });
    const caller = await client(era, url);
    expect(reply(await caller.call('tools/list'))).toContain('"well-tool"');
    expect(reply(await caller.call('tools/call', '{"name":"well-tool"}'))).toContain('called well');
  });
});
