import type { ElicitResult, Progress } from '@modelcontextprotocol/client';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Everything, startEverything } from './fixtures/everything.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { connectLegacy } from './fixtures/legacy-sdk-client.ts';
import { messages, modernClient } from './fixtures/raw-client.ts';
import { connect, type SdkClient } from './fixtures/sdk-client.ts';

// The official modern client, and the protocol's reference server, which supports the legacy era only.

const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
const PROMPT = 'What is the capital of France?';

describe('a modern client in front of the reference server', () => {
  let upstream: Everything;
  let gateway: Gateway;
  let modern: SdkClient;
  /** A client of the server's own era, connected to it directly. */
  let direct: Client;
  /** Server requests received besides those for roots: methods and params. */
  let requested: { readonly method: string; readonly params: unknown }[] = [];
  let response: ElicitResult;

  beforeAll(async () => {
    [upstream, gateway] = await Promise.all([startEverything(), startGateway()]);
    await gateway.forward('everything', upstream.url);
    direct = await connectLegacy(upstream.url, { capabilities: CAPABILITIES });
    modern = await connect(gateway.url(), 'modern', { capabilities: CAPABILITIES });
    modern.client.setRequestHandler('elicitation/create', ({ method, params }) => {
      requested.push({ method, params });
      return response;
    });
    modern.client.setRequestHandler('sampling/createMessage', ({ method, params }) => {
      requested.push({ method, params });
      const text = `an answer to ${JSON.stringify(params.messages[0]?.content)}`;
      return { role: 'assistant', model: 'none', content: { type: 'text', text } };
    });
    // The server requests them shortly after each session's start, too, concurrently with other messages.
    modern.client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///work', name: 'Work' }] }));
  });
  afterAll(async () => {
    await Promise.all([modern.close(), direct.close(), gateway.close()]);
    await upstream.close();
  });
  beforeEach(() => {
    requested = [];
    response = { action: 'accept', content: { name: 'Ada', check: true, integer: 7 } };
  });

  it('sees the entries for a client that supports server requests', async () => {
    const { client } = modern;
    expect(client.getProtocolEra()).toBe('modern');
    // The server registers its tools for such clients only after `notifications/initialized`.
    const tools = async () => (await direct.listTools()).tools.map(({ name }) => name);
    await expect.poll(tools).toContain('trigger-url-elicitation');
    const through = async () => (await client.listTools()).tools.map(({ name }) => name);
    await expect.poll(through).toEqual(await tools());
    expect((await client.listResources()).resources).toEqual((await direct.listResources()).resources);
    expect((await client.listPrompts()).prompts).toEqual((await direct.listPrompts()).prompts);
  });

  it('receives an elicitation request with a form', async () => {
    const text = (await modern.client.callTool({ name: 'trigger-elicitation-request' })).content;
    expect(JSON.stringify(text)).toContain('- Name: Ada\\n- Agreed to terms: true\\n- Favorite Integer: 7');
    expect(requested).toMatchObject([
      { method: 'elicitation/create', params: { requestedSchema: { required: ['name'] } } },
    ]);
  });

  it.each(['decline', 'cancel'] as const)('may also %s', async (action) => {
    response = { action };
    expect(await modern.callText('trigger-elicitation-request')).toMatch(
      /declined to provide|cancelled the elicitation/,
    );
  });

  it('receives an elicitation request with a URL', async () => {
    response = { action: 'accept' };
    const args = { url: 'https://example.com/a', elicitationId: 'e-1' };
    expect(await modern.callText('trigger-url-elicitation', args)).toContain(
      'User completed the URL elicitation flow.\nElicitation ID: e-1\nURL: https://example.com/a',
    );
    expect(requested).toMatchObject([{ params: { mode: 'url', url: 'https://example.com/a' } }]);
    expect(requested[0]?.params).not.toHaveProperty('elicitationId');
  });

  it('receives an elicitation request with a URL if the server requires it by an error', async () => {
    response = { action: 'accept' };
    const args = { url: 'https://example.com/b', errorPath: true };
    expect(await modern.callText('trigger-url-elicitation', args)).toContain('User completed the URL elicitation flow');
    expect(requested.map(({ params }) => params)).toMatchObject([
      { mode: 'url', url: 'https://modelcontextprotocol.io' },
      { mode: 'url', url: 'https://example.com/b' },
    ]);
  });

  it('gets a sampling request', async () => {
    const text = await modern.callText('trigger-sampling-request', { prompt: PROMPT, maxTokens: 9 });
    expect(text).toContain('an answer to');
    expect(text).toContain(PROMPT);
    expect(requested).toMatchObject([
      { method: 'sampling/createMessage', params: { maxTokens: 9, systemPrompt: 'You are a helpful test server.' } },
    ]);
  });

  it('gets a request for its roots, which the server sends on the stream of the session', async () => {
    expect(await modern.callText('get-roots-list')).toContain('1. Work\n   URI: file:///work');
  });

  it('gets requests from many concurrent calls, each with its own response', async () => {
    const prompts = Array.from({ length: 12 }, (_, at) => `prompt-${at}-`);
    const texts = await Promise.all(prompts.map((prompt) => modern.callText('trigger-sampling-request', { prompt })));
    for (const [at, text] of texts.entries()) {
      expect(prompts.filter((prompt) => text.includes(prompt))).toEqual([prompts[at]]);
    }
    expect(requested).toHaveLength(12);
  });

  it('receives progress', async () => {
    const received: Progress[] = [];
    await modern.client.callTool(
      { name: 'trigger-long-running-operation', arguments: { duration: 0.2, steps: 4 } },
      { onprogress: (progress) => void received.push(progress) },
    );
    expect(received).toEqual([1, 2, 3, 4].map((progress) => ({ progress, total: 4 })));
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

  // The server sends updates only in the session that requested their simulation, so none are visible here.
  it('can watch a resource', async () => {
    const uri = 'demo://resource/static/document/features.md';
    const subscription = await modern.client.listen({ resourceSubscriptions: [uri] });
    expect(subscription.honoredFilter).toEqual({ resourceSubscriptions: [uri] });
    await subscription.close();
  });

  it('gets lists with all members that the server sent, known or not', async () => {
    const [text = ''] = messages(await modernClient(gateway.url(), JSON.stringify(CAPABILITIES)).call('tools/list'));
    const { tools } = JSON.parse(text).result;
    expect(tools).toEqual((await direct.listTools()).tools);
    expect(tools[0].execution).toEqual({ taskSupport: 'forbidden' });
  });
});
