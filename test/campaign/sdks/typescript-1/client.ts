import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  ElicitRequestSchema,
  type Progress,
  ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { failure, restarted, settled, step } from '../client-steps.ts';

/** The client of the SDK campaign on the TypeScript SDK 1.x: runs the scenario with the server at the address given. */
const client = new Client({ name: 'typescript-1', version: '1.0.0' }, { capabilities: { elicitation: { form: {} } } });
const questions: unknown[] = [];
const updated: string[] = [];
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  questions.push(params);
  return { action: 'accept', content: { name: 'Ada' } };
});
client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void updated.push(params.uri));
const transport = new StreamableHTTPClientTransport(new URL(process.argv[2] ?? ''));
const call = (name: string, args = {}) => client.callTool({ name, arguments: args });

await step('initialize', async () => {
  await client.connect(transport);
  return {
    protocolVersion: transport.protocolVersion,
    serverInfo: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions(),
  };
});
await step('tools/list', async () => {
  const tools = [];
  let cursor: string | undefined;
  do {
    const page = await client.listTools({ cursor });
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return tools;
});
await step('echo', () => call('echo', { text: 'héllo' }));
await step('add', () => call('add', { a: 1, b: 2 }));
await step('fail', () => call('fail'));
await step('unknown tool', () => call('missing'));
await step('progress', async () => {
  const progress: Progress[] = [];
  const options = { onprogress: (value: Progress) => void progress.push(value) };
  const result = await client.callTool({ name: 'progress', arguments: { steps: 3 } }, undefined, options);
  return { progress, result };
});
await step('ask', async () => ({ result: await call('ask'), questions }));
await step('cancel', async () => {
  const stop = new AbortController();
  const slow = client.callTool({ name: 'slow', arguments: {} }, undefined, { signal: stop.signal });
  const outcome = slow.then((result) => ({ result }), failure);
  await delay(1_000);
  stop.abort('enough');
  return await outcome;
});
await step('canceled calls', () =>
  settled(
    async () => JSON.stringify((await call('canceled')).content),
    (content) => content.includes('1'),
  ),
);
await step('resources/list', () => client.listResources());
await step('resources/templates/list', () => client.listResourceTemplates());
await step('resources/read', () => client.readResource({ uri: 'test://static' }));
await step('resources/read of a template', () => client.readResource({ uri: 'test://items/7' }));
await step('resources/read of an unknown resource', () => client.readResource({ uri: 'test://missing' }));
await step('subscribe', async () => {
  if (client.getServerCapabilities()?.resources?.subscribe !== true) return 'unsupported';
  const subscribed = await client.subscribeResource({ uri: 'test://counter' });
  const touched = await call('touch');
  await settled(
    () => updated.length,
    (length) => length > 0,
  );
  const unsubscribed = await client.unsubscribeResource({ uri: 'test://counter' });
  return { subscribed, touched, updated, unsubscribed };
});
await step('prompts/list', () => client.listPrompts());
await step('prompts/get', () => client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } }));
await step('completion', () =>
  client.complete({ ref: { type: 'ref/prompt', name: 'greet' }, argument: { name: 'name', value: 'A' } }),
);
await restarted();
await step('echo after a restart', () => call('echo', { text: 'again' }));
await step('close', async () => {
  await transport.terminateSession();
  await client.close();
});
process.exit();
