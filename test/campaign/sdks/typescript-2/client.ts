import { setTimeout as delay } from 'node:timers/promises';
import { Client, type Progress, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { failure, restarted, settled, step } from '../client-steps.ts';

/** The client of the SDK campaign on the TypeScript SDK 2.x: runs the scenario with the server at the address given. */
const client = new Client(
  { name: 'typescript-2', version: '1.0.0' },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: 'auto' } },
);
const questions: unknown[] = [];
const updated: string[] = [];
client.setRequestHandler('elicitation/create', ({ params }) => {
  questions.push(params);
  return { action: 'accept', content: { name: 'Ada' } };
});
client.setNotificationHandler('notifications/resources/updated', ({ params }) => void updated.push(params.uri));
const transport = new StreamableHTTPClientTransport(new URL(process.argv[2] ?? ''));
const call = (name: string, args = {}) => client.callTool({ name, arguments: args });

await step('initialize', async () => {
  await client.connect(transport);
  return {
    protocolVersion: client.getNegotiatedProtocolVersion(),
    serverInfo: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions(),
  };
});
await step('tools/list', async () => (await client.listTools()).tools);
await step('echo', () => call('echo', { text: 'héllo' }));
await step('add', () => call('add', { a: 1, b: 2 }));
await step('fail', () => call('fail'));
await step('unknown tool', () => call('missing'));
await step('progress', async () => {
  const progress: Progress[] = [];
  const options = { onprogress: (value: Progress) => void progress.push(value) };
  const result = await client.callTool({ name: 'progress', arguments: { steps: 3 } }, options);
  return { progress, result };
});
await step('ask', async () => ({ result: await call('ask'), questions }));
await step('cancel', async () => {
  const stop = new AbortController();
  const slow = client.callTool({ name: 'slow', arguments: {} }, { signal: stop.signal });
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
  const uri = 'test://counter';
  const modern = client.getProtocolEra() === 'modern';
  const subscription = modern ? await client.listen({ resourceSubscriptions: [uri] }) : undefined;
  if (!modern) await client.subscribeResource({ uri });
  const touched = await call('touch');
  await settled(
    () => updated.length,
    (length) => length > 0,
  );
  await subscription?.close();
  if (!modern) await client.unsubscribeResource({ uri });
  return { touched, updated };
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
