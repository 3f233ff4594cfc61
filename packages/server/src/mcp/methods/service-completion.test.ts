import { describe, expect, it } from 'vitest';
import { freePort } from '../../../../../test/fixtures/free-port.ts';
import { reply } from '../../../../../test/fixtures/raw-client.ts';
import { LIST_END } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { declaring } from '../../../testing/declaring.ts';
import { client, eras, errorOf, lastCall, relayTests } from '../../../testing/relay.ts';

const relay = relayTests();
const { register, upstreamWith } = relay;

const ABLE = '{"prompts":{},"resources":{},"completions":{}}';

/** Scripts of an upstream that offers a prompt and a template of its own, and suggests `word`. */
function suggesting(word: string, capabilities = ABLE) {
  return {
    ...declaring(capabilities),
    'prompts/list': `{"prompts":[{"name":"ask"},{"name":"only-${word}"}],${LIST_END}`,
    'resources/list': `{"resources":[{"uri":"${word}://fixed","name":"f"}],${LIST_END}`,
    'resources/templates/list': `{"resourceTemplates":[{"uriTemplate":"${word}://{x}","name":"t"}],${LIST_END}`,
    'completion/complete': `{"completion":{"values":["${word}"],"total":1.0},"resultType":"complete"}`,
  };
}

const ARGUMENT = '"argument":{"name":"x","value":"p"}';
const prompt = (name: string) => `{"ref":{"type":"ref/prompt","name":"${name}"},${ARGUMENT}}`;
const resource = (uri: string) => `{"ref":{"type":"ref/resource","uri":"${uri}"},${ARGUMENT}}`;

describe.each(eras)('completion for a %s client', (era) => {
  it('comes from the forward that brought the prompt, under its own name, or the resource', async () => {
    const one = await upstreamWith(suggesting('one'));
    const two = await upstreamWith(suggesting('two'));
    const url = await register(one.url, { prefix: '1.' });
    const namespace = new URL(url).pathname.split('/')[1];
    await relay.service.register('forwards', { name: `${namespace}-2`, address: two.url, namespace, prefix: '2.' });
    const caller = await client(era, url);
    const asked = async (params: string) => reply(await caller.call('completion/complete', params));

    expect(await asked(prompt('1.ask'))).toContain('"completion":{"values":["one"],"total":1.0}');
    expect(lastCall(one, 'completion/complete')).toMatchObject({ era, params: { ref: { name: 'ask' } } });
    expect(await asked(prompt('2.ask'))).toContain('"values":["two"]');
    for (const uri of ['two://fixed', 'two://{x}', 'two://seven']) {
      expect(await asked(resource(uri))).toContain('"values":["two"]');
      expect(lastCall(two, 'completion/complete').params.ref).toEqual({ type: 'ref/resource', uri });
    }
    expect(one.count('completion/complete')).toBe(1);

    // All else of the request stays as it is, and no spelling of the name gets past.
    const context = '"context":{"arguments":{"name":"1.ask","n":1.0}}';
    await asked(`{ ${context}, "ref" : {"name":"x", "type":"ref/prompt", "n\\u0061me" : "1.ask"}, ${ARGUMENT} }`);
    const { body, headers } = lastCall(one, 'completion/complete');
    expect(body).toContain(`${context}, "ref" : {"name":"ask", "type":"ref/prompt", "n\\u0061me" : "ask"}`);
    expect(headers['mcp-name']).toBeUndefined();
  });

  it('crosses to an upstream of the other era', async () => {
    const upstream = await upstreamWith(
      { ...suggesting('far'), 'completion/complete': '{"completion":{"values":["far"]}}' },
      { eras: [era === 'legacy' ? 'modern' : 'legacy'] },
    );
    const caller = await client(era, await register(upstream.url, { prefix: 'p.' }));
    const answer = JSON.parse(reply(await caller.call('completion/complete', prompt('p.ask'))));
    expect(answer.result).toMatchObject({
      completion: { values: ['far'] },
      ...(era === 'modern' && { resultType: 'complete' }),
    });
    expect(lastCall(upstream, 'completion/complete').params.ref).toEqual({ type: 'ref/prompt', name: 'ask' });
  });

  it('of what was made by hand suggests nothing, and of what is not there is refused', async () => {
    const url = await register((await upstreamWith(suggesting('one'))).url);
    const namespace = new URL(url).pathname.split('/')[1];
    await relay.service.register('prompts', {
      name: 'hand',
      namespace,
      messages: [{ role: 'user', content: '{who}' }],
    });
    const caller = await client(era, url);
    const made = JSON.parse(reply(await caller.call('completion/complete', prompt('hand'))));
    expect(made.result).toEqual({
      completion: { values: [], total: 0, hasMore: false },
      ...(era === 'modern' && { resultType: 'complete' }),
    });
    const refused = async (params: string) => errorOf(await caller.call('completion/complete', params));
    expect(await refused(prompt('none'))).toEqual({ code: -32602, message: 'prompt not found: none' });
    expect(await refused(resource('x://none'))).toEqual({ code: -32602, message: 'resource not found: x://none' });
    for (const params of [
      '{}',
      `{"ref":"ask",${ARGUMENT}}`,
      `{"ref":{"type":"ref/tool","name":"a"},${ARGUMENT}}`,
      `{"ref":{"type":"ref/prompt","uri":"a"},${ARGUMENT}}`,
      `{"ref":{"type":"ref/resource"},${ARGUMENT}}`,
      '{"ref":{"type":"ref/prompt","name":"ask"}}',
      '{"ref":{"type":"ref/prompt","name":"ask"},"argument":{"name":"x","value":1}}',
    ]) {
      expect((await refused(params)).code).toBe(-32602);
    }
  });

  it('is unknown where no forward declares it, and what an upstream says where another one does', async () => {
    const plain = await upstreamWith(suggesting('plain', '{"prompts":{},"resources":{}}'));
    const url = await register(plain.url);
    const caller = await client(era, url);
    const answer = await caller.call('completion/complete', prompt('ask'));
    expect([answer.status, errorOf(answer).code]).toEqual([era === 'modern' ? 404 : 200, -32601]);
    expect(plain.count('completion/complete')).toBe(0);

    const namespace = new URL(url).pathname.split('/')[1];
    const able = await upstreamWith(suggesting('able'));
    await relay.service.register('forwards', { name: `${namespace}-able`, address: able.url, namespace });
    plain.scripts['completion/complete'] = { kind: 'error', text: '{"code":-32601,"message":"not mine"}' };
    expect(errorOf(await caller.call('completion/complete', prompt('ask'))).message).toBe('not mine');
  });

  it('fails in words of its own', async () => {
    const upstream = await upstreamWith(suggesting('one'), { port: await freePort() });
    const caller = await client(era, await register(upstream.url));
    await upstream.down();
    const { code, message } = errorOf(await caller.call('completion/complete', prompt('ask')));
    expect([code, message]).toEqual([-32603, expect.stringContaining('forwarded completion failed: upstream')]);
  });
});
