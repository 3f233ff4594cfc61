import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { type Everything, startEverything } from './fixtures/everything.ts';
import { connectLegacy } from './fixtures/legacy-sdk-client.ts';

let service: TestService;
let everything: Everything;
let client: Client;
beforeAll(async () => {
  [service, everything] = await Promise.all([startTestService(), startEverything()]);
  await service.register('forwards', { name: 'everything', address: everything.url });
  client = await connectLegacy(service.url(), { capabilities: { elicitation: { form: {} } } });
  client.setRequestHandler(ElicitRequestSchema, async () => ({
    action: 'accept',
    content: { interpretation: 'technical' },
  }));
}, 60_000);
afterAll(async () => {
  await client?.close();
  await service?.stop(0);
  await everything?.close();
});

const TOOL = 'simulate-research-query';

it('the official legacy client runs a task of the reference server, and answers its question', async () => {
  const messages: string[] = [];
  const states: string[] = [];
  const stream = client.experimental.tasks.callToolStream(
    { name: TOOL, arguments: { topic: 'MCP', ambiguous: true } },
    CallToolResultSchema,
    { task: { ttl: 60_000 } },
  );
  let text: unknown;
  let taskId = '';
  for await (const message of stream) {
    messages.push(message.type);
    if (message.type === 'taskCreated') taskId = message.task.taskId;
    if (message.type === 'taskStatus') states.push(message.task.status);
    if (message.type === 'result') text = Object(message.result.content[0]).text;
  }
  expect(messages.at(0)).toBe('taskCreated');
  expect(messages.at(-1)).toBe('result');
  expect(states).toContain('input_required');
  expect(text).toContain('MCP (technical)');
  const { tasks } = await client.experimental.tasks.listTasks();
  expect(tasks.map((task) => task.taskId)).toEqual([taskId]);
}, 60_000);

it('and calls the same tool, which requires a task, as a plain one', async () => {
  // A client of its own: one that has seen the list of tools rejects such a call itself.
  const plain = await connectLegacy(service.url());
  const { content } = await plain.callTool({ name: TOOL, arguments: { topic: 'plain', ambiguous: false } });
  expect(JSON.stringify(content)).toContain('Research Report: plain');
  await plain.close();
}, 60_000);
