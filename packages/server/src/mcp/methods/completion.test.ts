import { describe, expect, it } from 'vitest';
import { freePort } from '../../../../../test/fixtures/free-port.ts';
import { reply } from '../../../../../test/fixtures/raw-client.ts';
import { LIST_END } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { capabilityScripts } from '../../../testing/capability-scripts.ts';
import { client, eras, errorOf, lastCall, relayTests } from '../../../testing/relay.ts';

const relay = relayTests();
const { register, upstreamWith } = relay;

const ABLE = '{"prompts":{},"resources":{},"completions":{}}';

/** Scripts of an upstream with its own prompt and template, which suggests `word`. */
function suggesting(word: string, capabilities = ABLE) {
  return {
    ...capabilityScripts(capabilities),
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
  it('is requested from the forward of the prompt, under its upstream name, or of the resource', async () => {
    const one = await upstreamWith(suggesting('one'));
    const two = await upstreamWith(suggesting('two'));
    const url = await register(one.url, { prefix: '1.' });
    const namespace = new URL(url).pathname.split('/')[1];
    await relay.service.register('forwards', { name: `${namespace}-2`, address: two.url, namespace, prefix: '2.' });
    const caller = await client(era, url);
    const request = async (params: string) => reply(await caller.call('completion/complete', params));

    expect(await request(prompt('1.ask'))).toContain('"completion":{"values":["one"],"total":1.0}');
    expect(lastCall(one, 'completion/complete')).toMatchObject({ era, params: { ref: { name: 'ask' } } });
    expect(await request(prompt('2.ask'))).toContain('"values":["two"]');
    for (const uri of ['two://fixed', 'two://{x}', 'two://seven']) {
      expect(await request(resource(uri))).toContain('"values":["two"]');
      expect(lastCall(two, 'completion/complete').params.ref).toEqual({ type: 'ref/resource', uri });
    }
    expect(one.count('completion/complete')).toBe(1);

    // The rest of the request stays unchanged, and no escape of the name bypasses the mapping.
    const context = '"context":{"arguments":{"name":"1.ask","n":1.0}}';
    await request(`{ ${context}, "ref" : {"title":"x", "type":"ref/prompt", "n\\u0061me" : "1.ask"}, ${ARGUMENT} }`);
    const { body, headers } = lastCall(one, 'completion/complete');
    expect(body).toContain(`${context}, "ref" : {"title":"x", "type":"ref/prompt", "n\\u0061me" : "ask"}`);
    expect(headers['mcp-name']).toBeUndefined();
  });

  it('crosses to an upstream of the other era', async () => {
    const upstream = await upstreamWith(
      { ...suggesting('far'), 'completion/complete': '{"completion":{"values":["far"]}}' },
      { eras: [era === 'legacy' ? 'modern' : 'legacy'] },
    );
    const caller = await client(era, await register(upstream.url, { prefix: 'p.' }));
    const response = JSON.parse(reply(await caller.call('completion/complete', prompt('p.ask'))));
    expect(response.result).toMatchObject({
      completion: { values: ['far'] },
      ...(era === 'modern' && { resultType: 'complete' }),
    });
    expect(lastCall(upstream, 'completion/complete').params.ref).toEqual({ type: 'ref/prompt', name: 'ask' });
  });

  it('is empty for manual entries, and an error for unknown ones', async () => {
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
    const expectRejected = async (params: string) => errorOf(await caller.call('completion/complete', params));
    expect(await expectRejected(prompt('none'))).toEqual({ code: -32602, message: 'prompt not found: none' });
    expect(await expectRejected(resource('x://none'))).toEqual({
      code: -32602,
      message: 'resource not found: x://none',
    });
    for (const params of [
      '{}',
      `{"ref":"ask",${ARGUMENT}}`,
      `{"ref":{"type":"ref/tool","name":"a"},${ARGUMENT}}`,
      `{"ref":{"type":"ref/prompt","uri":"a"},${ARGUMENT}}`,
      `{"ref":{"type":"ref/resource"},${ARGUMENT}}`,
      '{"ref":{"type":"ref/prompt","name":"ask"}}',
      '{"ref":{"type":"ref/prompt","name":"ask"},"argument":{"name":"x","value":1}}',
    ]) {
      expect((await expectRejected(params)).code).toBe(-32602);
    }
  });

  it("is an unknown method when no forward declares it, and the upstream's own error when another one does", async () => {
    const plain = await upstreamWith(suggesting('plain', '{"prompts":{},"resources":{}}'));
    const url = await register(plain.url);
    const caller = await client(era, url);
    const response = await caller.call('completion/complete', prompt('ask'));
    expect([response.status, errorOf(response).code]).toEqual([era === 'modern' ? 404 : 200, -32601]);
    expect(plain.count('completion/complete')).toBe(0);

    const namespace = new URL(url).pathname.split('/')[1];
    const able = await upstreamWith(suggesting('able'));
    await relay.service.register('forwards', { name: `${namespace}-able`, address: able.url, namespace });
    plain.scripts['completion/complete'] = { kind: 'error', text: '{"code":-32601,"message":"not mine"}' };
    expect(errorOf(await caller.call('completion/complete', prompt('ask'))).message).toBe('not mine');
  });

  it('returns its own error messages', async () => {
    const upstream = await upstreamWith(suggesting('one'), { port: await freePort() });
    const caller = await client(era, await register(upstream.url));
    await upstream.down();
    const { code, message } = errorOf(await caller.call('completion/complete', prompt('ask')));
    expect([code, message]).toEqual([-32603, expect.stringContaining('forwarded completion failed: upstream')]);
  });
});
