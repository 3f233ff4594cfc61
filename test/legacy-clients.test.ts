import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ProgressNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type DualEra, startDualEra } from './fixtures/dual-era.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { prepareBridge } from './fixtures/mcp-remote.ts';
import { connect, type SdkClient } from './fixtures/sdk-client.ts';

// Legacy-only clients with a modern-only server, both the official ones.

const CAPABILITIES = { elicitation: { form: {} }, sampling: {}, roots: {} };
const ROOTS = [{ uri: 'file:///work', name: 'Work' }];
const FORM = { name: 'Ada', color: 'blue', ok: true, context: 'tests', response: 'fine' };

/** Request timeout of the client. */
const TIMEOUT = { timeout: 20_000 };

/** The transports between such a client and the gateway. */
type Connection = (client: Client, url: string) => Promise<() => Promise<unknown>>;
const CONNECTIONS: readonly [way: string, reach: Connection, tags: string[]][] = [
  [
    'over HTTP',
    async (client, url) => {
      await client.connect(new StreamableHTTPClientTransport(new URL(url)));
      return () => client.close();
    },
    [],
  ],
  [
    'over stdio and mcp-remote',
    async (client, url) => {
      const bridge = await prepareBridge(url);
      await client.connect(bridge.transport);
      return async () => {
        await client.close();
        await bridge.close();
      };
    },
    ['slow'],
  ],
];

const tests = (reach: Connection) => () => {
  let upstream: DualEra;
  let gateway: Gateway;
  /** The responses of the server to a client of its own era. */
  let direct: SdkClient;
  let client: Client;
  let disconnect: () => Promise<unknown>;
  /** Methods of the received server requests, and the response to forms. */
  let requested: string[] = [];
  let form: () => { action: 'accept' | 'decline' | 'cancel'; content?: typeof FORM };
  const logged: unknown[] = [];
  const updated: string[] = [];
  let listChanges = 0;

  beforeAll(async () => {
    [upstream, gateway] = await Promise.all([startDualEra({ eras: 'modern' }), startGateway()]);
    await gateway.forward('modern', upstream.url);
    direct = await connect(upstream.url, 'modern', { capabilities: CAPABILITIES });
    client = new Client({ name: 'legacy', version: '1.0.0' }, { capabilities: CAPABILITIES });
    client.setRequestHandler(ElicitRequestSchema, () => {
      requested.push('elicitation');
      return form();
    });
    client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => {
      requested.push('sampling');
      return { role: 'assistant', model: 'none', content: { type: 'text', text: `pong ${params.maxTokens}` } };
    });
    client.setRequestHandler(ListRootsRequestSchema, () => {
      requested.push('roots');
      return { roots: ROOTS };
    });
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void logged.push(params.data));
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void updated.push(params.uri));
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => void listChanges++);
    disconnect = await reach(client, gateway.url());
  });
  afterAll(async () => {
    await disconnect();
    await Promise.all([direct.close(), gateway.close()]);
    await upstream.close();
  });
  beforeEach(() => {
    requested = [];
    form = () => ({ action: 'accept', content: FORM });
  });

  /** The text of a tool's first block. */
  async function called(name: string, args: Record<string, unknown> = {}): Promise<string> {
    const { content } = await client.callTool({ name, arguments: args }, undefined, TIMEOUT);
    const [block] = Array.isArray(content) ? content : [];
    return block?.text;
  }

  it('sees the entries of the server', async () => {
    const [tools, resources, templates, prompts] = await Promise.all([
      client.listTools(),
      client.listResources(),
      client.listResourceTemplates(),
      client.listPrompts(),
    ]);
    const names = (entries: readonly { name: string }[]) => entries.map(({ name }) => name);
    expect(names(tools.tools)).toEqual(names((await direct.client.listTools()).tools));
    expect(resources.resources).toEqual((await direct.client.listResources()).resources);
    expect(templates.resourceTemplates).toEqual((await direct.client.listResourceTemplates()).resourceTemplates);
    expect(prompts.prompts).toEqual((await direct.client.listPrompts()).prompts);
  });

  it.each([
    ['all_content', {}],
    ['weather_report', { city: 'Ulm' }],
    ['echo_arguments', { nested: { list: [1, null, 'ü'] }, large: 9007199254740991 }],
    ['test_error_handling', {}],
  ])('receives the result of %s unchanged', async (name, args) => {
    const { content, structuredContent, isError } = await client.callTool({ name, arguments: args });
    const expected = await direct.client.callTool({ name, arguments: args });
    expect(content).toEqual(expected.content);
    expect([structuredContent, isError]).toEqual([expected.structuredContent, expected.isError]);
  });

  it('gets structured content that is not an object as text alone', async () => {
    const result = await client.callTool({ name: 'list_numbers' });
    expect(result.content).toEqual((await direct.client.callTool({ name: 'list_numbers' })).content);
    expect(result).not.toHaveProperty('structuredContent');
  });

  it('gets errors with their code and data', async () => {
    const failure = await direct.client.callTool({ name: 'protocol_error' }).catch((error: unknown) => error);
    const { code, data } = Object(failure);
    await expect(client.callTool({ name: 'protocol_error' })).rejects.toMatchObject({ code, data });
  });

  it('reads resources, gets prompts and completions', async () => {
    const uri = 'test://template/7/data';
    expect((await client.readResource({ uri })).contents).toEqual((await direct.client.readResource({ uri })).contents);
    const wanted = { name: 'test_prompt_with_arguments', arguments: { arg1: 'a', arg2: 'ü' } };
    expect((await client.getPrompt(wanted)).messages).toEqual((await direct.client.getPrompt(wanted)).messages);
    const ref = { type: 'ref/prompt' as const, name: 'test_prompt_with_arguments' };
    const { completion } = await client.complete({ ref, argument: { name: 'arg1', value: 'par' } });
    expect(completion.values).toEqual(['paris', 'park', 'party']);
  });

  it.each([
    ['elicitation', ['elicitation'], 'Hello, Ada!'],
    ['sampling', ['sampling'], 'Sampling response: {"type":"text","text":"pong 100"}'],
    ['list_roots', ['roots'], 'Client exposed 1 root(s): file:///work'],
    ['request_state', ['elicitation'], 'state-ok: requestState verified and confirmation received'],
    ['tampered_state', ['elicitation'], 'integrity-ok: requestState verified'],
    ['multi_round', ['elicitation', 'elicitation'], 'Multi-round complete: Ada likes blue'],
    [
      'multiple_inputs',
      ['elicitation', 'roots', 'sampling'],
      '{"type":"text","text":"pong 50"} Ada, 1 root(s) visible',
    ],
    ['capabilities', ['elicitation', 'roots', 'sampling'], 'Capability-aware input requests fulfilled'],
  ])('gets server requests during a call: %s', async (tool, requests, text) => {
    expect(await called(`test_input_required_result_${tool}`)).toBe(text);
    expect(requested.toSorted()).toEqual(requests);
  });

  it('gets server requests of prompts, too', async () => {
    const { messages } = await client.getPrompt({ name: 'test_input_required_result_prompt' });
    expect(messages).toEqual([{ role: 'user', content: { type: 'text', text: 'Use this context: tests' } }]);
    expect(requested).toEqual(['elicitation']);
  });

  it('may decline, and may return an error', async () => {
    form = () => ({ action: 'decline' });
    expect(await called('test_elicitation', { message: 'm' })).toBe('action=decline, content={}');
    form = () => {
      throw new Error('nobody there');
    };
    await expect(client.callTool({ name: 'test_elicitation', arguments: { message: 'm' } })).rejects.toMatchObject({
      code: -32603,
      message: expect.stringContaining('did not provide the required input: nobody there'),
    });
  });

  it('receives progress', async () => {
    // Not by `onprogress`: over stdio the client removes it before progress that arrives together with the response.
    const received: number[] = [];
    client.setNotificationHandler(ProgressNotificationSchema, ({ params }) => void received.push(params.progress));
    await client.callTool({ name: 'test_tool_with_progress' }, undefined, { onprogress: () => undefined });
    expect(received).toEqual([0, 50, 100]);
  });

  it('receives log messages from its log level on', async () => {
    logged.length = 0;
    await called('test_logging_tool');
    expect(logged).toEqual(['test_logging_tool ran']);
    await client.setLoggingLevel('error');
    await called('test_logging_tool');
    expect(logged).toHaveLength(1);
    await client.setLoggingLevel('debug');
    await called('test_logging_tool');
    expect(logged).toHaveLength(2);
  });

  it('cancels, and the server stops', async () => {
    const stop = new AbortController();
    const options = { signal: stop.signal };
    const slow = client.callTool({ name: 'slow', arguments: { ms: 60_000 } }, undefined, options);
    const failed = expect(slow).rejects.toThrow('enough');
    // A completed call shows that the one before it has arrived.
    await called('test_simple_text');
    const before = upstream.cancelled();
    stop.abort('enough');
    await failed;
    await expect.poll(() => upstream.cancelled()).toBe(before + 1);
  });

  it('is notified of changes: of lists, and of subscribed resources', async () => {
    const uri = 'test://watched-resource';
    upstream.updateResource(uri);
    await client.subscribeResource({ uri });
    expect(updated).toEqual([]);
    upstream.updateResource(uri);
    await expect.poll(() => updated).toEqual([uri]);
    await client.unsubscribeResource({ uri });

    const before = listChanges;
    upstream.addTool('new_one');
    await expect.poll(() => listChanges).toBeGreaterThan(before);
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('new_one');
  });
};

for (const [way, reach, tags] of CONNECTIONS) {
  describe(`a legacy client ${way} in front of a server of the modern era`, { tags }, tests(reach));
}
