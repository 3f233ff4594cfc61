import { once } from 'node:events';
import { createServer } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestService } from '../../packages/server/testing/service.ts';
import { consoleTests, fillEditor } from '../fixtures/console.ts';

const TOOL = { description: 'd', uri: 'reports://x', toolType: 'reports', input_schema: { type: 'object' } };
const env: Record<string, string> = {};
const received: unknown[] = [];
let answer = { status: 200, text: 'Hello <i>back</i>' };
const backend = createServer(async (request, response) => {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) body += chunk;
  if (request.url === '/api/v1/chat/llms') return void response.end('["acme"]');
  if (request.url === '/api/v1/chat/acme/models') return void response.end('[{"name":"m-1"}]');
  received.push(JSON.parse(body));
  response.writeHead(answer.status, { 'content-type': 'text/plain' }).end(answer.text);
});
beforeAll(async () => {
  backend.listen(0, '127.0.0.1');
  await once(backend, 'listening');
  const address = backend.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP address');
  env.SERVICE_CLASSIC_URL = `http://127.0.0.1:${address.port}`;
});
afterAll(() => void backend.close().closeAllConnections());

// After the hooks above, which it needs.
const tests = consoleTests(async () => {
  const service = await startTestService(env);
  return { service, close: () => service.stop(0) };
});

test('a message with tools is answered, and what was typed stays when it is not', async (context) => {
  for (const name of ['find', 'report', 'other']) await tests.service.register('tools', { ...TOOL, name });
  const page = await tests.open(context, '#/llmchat');
  await page.locator('#chat-llm').selectOption('acme');
  await page.locator('#chat-model').selectOption('m-1');
  await page.locator('#chat-key').fill('sk-secret');
  for (const name of ['find', 'report']) {
    await page.locator('#chat-tools').fill(name);
    await page.getByRole('option', { name }).click();
  }
  await page.getByRole('button', { name: 'Remove report' }).click();
  await page.getByRole('button', { name: 'System prompt and parameters' }).click();
  await fillEditor(page, 'chat-parameters', '{"temperature": ');
  await page.locator('#chat-prompt').fill('Hello');
  expect(await page.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true);
  await fillEditor(page, 'chat-parameters', '{"temperature": 0}');
  await page.locator('#chat-prompt').fill('Hello');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('Hello <i>back</i>').waitFor();
  answer = { status: 500, text: 'the model is out of order' };
  await page.locator('#chat-prompt').fill('Again');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('.cds--inline-notification--error', { hasText: 'the model is out of order' }).waitFor();
  expect(await page.locator('#chat-prompt').inputValue()).toBe('Again');
  const common = {
    llm: 'acme',
    model: 'm-1',
    apiKey: 'sk-secret',
    systemPrompt: '',
    selectedTools: ['find'],
    extraLlmParams: { temperature: 0 },
  };
  expect(received).toEqual([
    { ...common, userPrompt: 'Hello', chatHistory: [] },
    {
      ...common,
      userPrompt: 'Again',
      chatHistory: [
        { role: 'user', content: 'Hello' },
        { role: 'assistant', content: 'Hello <i>back</i>' },
      ],
    },
  ]);
  expect(page.url()).not.toContain('secret');
});

test('without a legacy backend the page says what to set', async (context) => {
  const page = await tests.open(context, '#/');
  const error = { data: null, error: { code: 'UNAVAILABLE', message: 'no legacy backend' } };
  await page.route('**/api/v1/chat/llms', (route) => route.fulfill({ status: 503, json: error }));
  await page.goto(`${tests.service.management}/admin/#/llmchat`);
  await page.getByText('Set SERVICE_CLASSIC_URL to its address').waitFor();
});
