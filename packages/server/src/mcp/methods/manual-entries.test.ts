import { describe, expect, it } from 'vitest';
import { startDualEra } from '../../../../../test/fixtures/dual-era.ts';
import { reply } from '../../../../../test/fixtures/raw-client.ts';
import { client, eras, errorOf, lastCall, relayTests } from '../../../testing/relay.ts';
import { eventsOfLastCall } from '../../../testing/tool-call-events.ts';

const relay = relayTests();
const { upstreamWith } = relay;

const noAddress = (name: string) => `tool ${name}: its uri must be an http:// or https:// address`;

describe.each(eras)('manual entries (%s)', (era) => {
  const namespace = `manual-${era}`;
  const complete = era === 'modern' ? { resultType: 'complete' } : {};

  it('render a prompt locally', async () => {
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
    const response = await caller.call('prompts/get', '{"name":"greet","arguments":{"who":"{unknown} Ann"}}');
    expect(JSON.parse(response.text).result).toEqual({
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

  it('call a tool at a server of the other era', async () => {
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
      for (const [at, response] of (await Promise.all(calls)).entries()) {
        expect(reply(response)).toContain(['one', 'two'][at]);
        expect(errorOf(response)).toBeUndefined();
      }
    } finally {
      await server.close();
    }
  });

  it.each([
    ['Archive', 'grpc://archive', 'There is no host registered for service Archive', 'grpc SERVICE_UNAVAILABLE'],
    ['Python', 'code-execution-engine://x/y', 'There is no code execution service for x/y', 'code SERVICE_UNAVAILABLE'],
    ['Broken', 'http://', noAddress('t-Broken-http://'), 'mcp TOOL_DEFINITION_ERROR'],
    ['mcp-forward', 'http://[', noAddress('t-mcp-forward-http://['), 'mcp TOOL_DEFINITION_ERROR'],
    ['mcp-forward', 'grpc://x', noAddress('t-mcp-forward-grpc://x'), 'mcp TOOL_DEFINITION_ERROR'],
  ])('return and log an error for a tool of type %s at %s without an executor', async (toolType, uri, text, event) => {
    const name = `t-${toolType}-${uri}`;
    await relay.service.register('tools', { name, namespace, description: '', uri, toolType, input_schema: {} });
    const response = await (await client(era, relay.service.url(namespace))).call(
      'tools/call',
      JSON.stringify({ name }),
    );
    expect(JSON.parse(response.text).result).toEqual({
      content: [{ type: 'text', text }],
      isError: true,
      ...complete,
    });
    const toldAs = event.startsWith('code') ? 'code-execution/x/y' : name;
    const received = await eventsOfLastCall(relay.service, toldAs);
    expect(
      received.map(({ transport, ...more }) => [transport, 'errorCategory' in more && more.errorCategory]),
    ).toEqual([event.split(' ')]);
    expect(received).toMatchObject([{ eventType: 'FAILED', errorMessage: text, serviceAddress: '' }]);
  });
});
