import type { ElicitResult, Progress } from '@modelcontextprotocol/client';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Everything, startEverything } from './fixtures/everything.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { connectLegacy } from './fixtures/legacy-sdk-client.ts';
import { messages, modernClient } from './fixtures/raw-client.ts';
import { connect, type SdkClient } from './fixtures/sdk-client.ts';

// The official client of the modern era, and the protocol's reference server, which knows the legacy one alone.

const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
const PROMPT = 'What is the capital of France?';

describe('a modern client in front of the reference server', () => {
  let upstream: Everything;
  let gateway: Gateway;
  let modern: SdkClient;
  /** A client of the server's own era, connected to it without anything in between. */
  let direct: Client;
  /** What the client was asked besides its roots: methods and params. */
  let asked: { readonly method: string; readonly params: unknown }[] = [];
  let answer: ElicitResult;

  beforeAll(async () => {
    [upstream, gateway] = await Promise.all([startEverything(), startGateway()]);
    await gateway.forward('everything', upstream.url);
    direct = await connectLegacy(upstream.url, { capabilities: CAPABILITIES });
    modern = await connect(gateway.url(), 'modern', { capabilities: CAPABILITIES });
    modern.client.setRequestHandler('elicitation/create', ({ method, params }) => {
      asked.push({ method, params });
      return answer;
    });
    modern.client.setRequestHandler('sampling/createMessage', ({ method, params }) => {
      asked.push({ method, params });
      const text = `an answer to ${JSON.stringify(params.messages[0]?.content)}`;
      return { role: 'assistant', model: 'none', content: { type: 'text', text } };
    });
    // The server asks for them a moment after each session's beginning, too, whatever is going on then.
    modern.client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///work', name: 'Work' }] }));
  });
  afterAll(async () => {
    await Promise.all([modern.close(), direct.close(), gateway.close()]);
    await upstream.close();
  });
  beforeEach(() => {
    asked = [];
    answer = { action: 'accept', content: { name: 'Ada', check: true, integer: 7 } };
  });

  it('sees what the server offers to a client that can be asked', async () => {
    const { client } = modern;
    expect(client.getProtocolEra()).toBe('modern');
    // The server has its tools for such clients ready only when it has heard that they are initialised.
    const tools = async () => (await direct.listTools()).tools.map(({ name }) => name);
    await expect.poll(tools).toContain('trigger-url-elicitation');
    const through = async () => (await client.listTools()).tools.map(({ name }) => name);
    await expect.poll(through).toEqual(await tools());
    expect((await client.listResources()).resources).toEqual((await direct.listResources()).resources);
    expect((await client.listPrompts()).prompts).toEqual((await direct.listPrompts()).prompts);
  });

  it('is asked to fill in a form', async () => {
    const text = (await modern.client.callTool({ name: 'trigger-elicitation-request' })).content;
    expect(JSON.stringify(text)).toContain('- Name: Ada\\n- Agreed to terms: true\\n- Favorite Integer: 7');
    expect(asked).toMatchObject([
      { method: 'elicitation/create', params: { requestedSchema: { required: ['name'] } } },
    ]);
  });

  it.each(['decline', 'cancel'] as const)('may also %s', async (action) => {
    answer = { action };
    expect(await modern.callText('trigger-elicitation-request')).toMatch(
      /declined to provide|cancelled the elicitation/,
    );
  });

  it('is asked to visit an address', async () => {
    answer = { action: 'accept' };
    const args = { url: 'https://example.com/a', elicitationId: 'e-1' };
    expect(await modern.callText('trigger-url-elicitation', args)).toContain(
      'User completed the URL elicitation flow.\nElicitation ID: e-1\nURL: https://example.com/a',
    );
    expect(asked).toMatchObject([{ params: { mode: 'url', url: 'https://example.com/a' } }]);
    expect(asked[0]?.params).not.toHaveProperty('elicitationId');
  });

  it('is asked to visit another address first, where the server demands it by an error', async () => {
    answer = { action: 'accept' };
    const args = { url: 'https://example.com/b', errorPath: true };
    expect(await modern.callText('trigger-url-elicitation', args)).toContain('User completed the URL elicitation flow');
    expect(asked.map(({ params }) => params)).toMatchObject([
      { mode: 'url', url: 'https://modelcontextprotocol.io' },
      { mode: 'url', url: 'https://example.com/b' },
    ]);
  });

  it('is asked for a completion', async () => {
    const text = await modern.callText('trigger-sampling-request', { prompt: PROMPT, maxTokens: 9 });
    expect(text).toContain('an answer to');
    expect(text).toContain(PROMPT);
    expect(asked).toMatchObject([
      { method: 'sampling/createMessage', params: { maxTokens: 9, systemPrompt: 'You are a helpful test server.' } },
    ]);
  });

  it('is asked for its roots, which the server does on the stream of the session', async () => {
    expect(await modern.callText('get-roots-list')).toContain('1. Work\n   URI: file:///work');
  });

  it('is asked by many calls at once, and each gets its own answer', async () => {
    const prompts = Array.from({ length: 12 }, (_, at) => `prompt-${at}-`);
    const texts = await Promise.all(prompts.map((prompt) => modern.callText('trigger-sampling-request', { prompt })));
    for (const [at, text] of texts.entries()) {
      expect(prompts.filter((prompt) => text.includes(prompt))).toEqual([prompts[at]]);
    }
    expect(asked).toHaveLength(12);
  });

  it('hears of progress', async () => {
    const heard: Progress[] = [];
    await modern.client.callTool(
      { name: 'trigger-long-running-operation', arguments: { duration: 0.2, steps: 4 } },
      { onprogress: (progress) => void heard.push(progress) },
    );
    expect(heard).toEqual([1, 2, 3, 4].map((progress) => ({ progress, total: 4 })));
  });

  it('gets prompts, completions and resources', async () => {
    const prompt = { name: 'args-prompt', arguments: { city: 'Ulm', state: 'BW' } };
    expect((await modern.client.getPrompt(prompt)).messages).toEqual((await direct.getPrompt(prompt)).messages);
    const wanted = {
      ref: { type: 'ref/prompt' as const, name: 'completable-prompt' },
      argument: { name: 'department', value: 'S' },
    };
    expect((await modern.client.complete(wanted)).completion).toEqual((await direct.complete(wanted)).completion);
    const uri = 'demo://resource/static/document/features.md';
    expect((await modern.client.readResource({ uri })).contents).toEqual((await direct.readResource({ uri })).contents);
  });

  // The server tells of updates only in the session in which it was asked to simulate them: none can be seen here.
  it('can watch a resource', async () => {
    const uri = 'demo://resource/static/document/features.md';
    const subscription = await modern.client.listen({ resourceSubscriptions: [uri] });
    expect(subscription.honoredFilter).toEqual({ resourceSubscriptions: [uri] });
    await subscription.close();
  });

  it('gets lists with all that the server wrote, whether the client knows it or not', async () => {
    const [text = ''] = messages(await modernClient(gateway.url(), JSON.stringify(CAPABILITIES)).call('tools/list'));
    const { tools } = JSON.parse(text).result;
    expect(tools).toEqual((await direct.listTools()).tools);
    expect(tools[0].execution).toEqual({ taskSupport: 'forbidden' });
  });
});
