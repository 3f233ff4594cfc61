import { describe, expect, it } from 'vitest';
import { startDualEra } from '../../../../../test/fixtures/dual-era.ts';
import { reply } from '../../../../../test/fixtures/raw-client.ts';
import { client, eras, errorOf, lastCall, relayTests } from '../../testing/relay.ts';

const relay = relayTests();
const { upstreamWith } = relay;

describe.each(eras)('what was made by hand (%s)', (era) => {
  const namespace = `hand-${era}`;
  const complete = era === 'modern' ? { resultType: 'complete' } : {};

  it('is, as a prompt, answered here', async () => {
    await relay.service.register('prompts', {
      name: 'greet',
      namespace,
      description: 'Greets',
      arguments: [{ name: 'who', required: true }],
      messages: [
        { role: 'system', content: 'Be kind.' },
        { role: 'user', content: 'Hello {who}, {unknown}' },
      ],
    });
    const caller = await client(era, relay.service.url(namespace));
    const answer = await caller.call('prompts/get', '{"name":"greet","arguments":{"who":"{unknown} Ann"}}');
    expect(JSON.parse(answer.text).result).toEqual({
      description: 'Greets',
      messages: [
        { role: 'user', content: { type: 'text', text: 'Be kind.' } },
        { role: 'user', content: { type: 'text', text: 'Hello {unknown} Ann, {unknown}' } },
      ],
      ...complete,
    });
    expect(errorOf(await caller.call('prompts/get', '{"name":"greet"}'))).toEqual({
      code: -32602,
      message: 'missing required argument: who',
    });
  });

  it.each(['custom', 'mcp-forward'])(
    'is, as a tool of type %s with an http address, called there by its name',
    async (toolType) => {
      const upstream = await upstreamWith();
      await relay.service.register('tools', {
        name: `by-${toolType}`,
        namespace,
        description: '',
        uri: upstream.url,
        toolType,
        input_schema: {},
      });
      const caller = await client(era, relay.service.url(namespace));
      expect(reply(await caller.call('tools/call', `{"name":"by-${toolType}","arguments":{"n":1.0}}`))).toContain(
        'done',
      );
      expect(lastCall(upstream)).toMatchObject({ era, params: { name: `by-${toolType}` } });
      expect(lastCall(upstream).body).toContain('"arguments":{"n":1.0}');
    },
  );

  it('is, as a tool at a server that speaks the other era only, called there all the same', async () => {
    const other = era === 'modern' ? 'legacy' : 'modern';
    const server = await startDualEra({ eras: other });
    try {
      await relay.service.register('tools', {
        name: 'echo_arguments',
        namespace: `${namespace}-other`,
        description: '',
        uri: server.url,
        toolType: 'mcp-forward',
        input_schema: {},
      });
      const caller = await client(era, relay.service.url(`${namespace}-other`));
      const calls = ['one', 'two'].map((message) =>
        caller.call('tools/call', JSON.stringify({ name: 'echo_arguments', arguments: { message } })),
      );
      for (const [at, answer] of (await Promise.all(calls)).entries()) {
        expect(reply(answer)).toContain(['one', 'two'][at]);
        expect(errorOf(answer)).toBeUndefined();
      }
    } finally {
      await server.close();
    }
  });

  it.each([
    ['Archive', 'grpc://archive', 'There is no host registered for service Archive'],
    ['Python', 'code-execution-engine://x/y', 'There is no code execution service for x/y'],
    ['Broken', 'http://', 'There is no host registered for service Broken'],
    ['mcp-forward', 'http://[', 'There is no host registered for service mcp-forward'],
  ])('is, as a tool of type %s at %s, answered that nobody carries it out', async (toolType, uri, text) => {
    const name = `t-${toolType}`;
    await relay.service.register('tools', { name, namespace, description: '', uri, toolType, input_schema: {} });
    const answer = await (await client(era, relay.service.url(namespace))).call('tools/call', JSON.stringify({ name }));
    expect(JSON.parse(answer.text).result).toEqual({
      content: [{ type: 'text', text }],
      isError: true,
      ...complete,
    });
  });
});
