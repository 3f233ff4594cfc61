import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestService } from '../../packages/server/testing/service.ts';
import { startChatServer } from '../fixtures/chat/server.ts';
import { consoleTests, dialog, settled } from '../fixtures/console.ts';
import { modernClient } from '../fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../fixtures/raw-upstream/texts.ts';

const env: Record<string, string> = {};
let models: Awaited<ReturnType<typeof startChatServer>>;
beforeAll(async () => {
  models = await startChatServer();
  env.SERVICE_INFERENCE_UPSTREAM = `127.0.0.1:${models.port}`;
});
afterAll(() => models.close());

// After the hooks above, which it needs.
const tests = consoleTests(async () => {
  const service = await startTestService(env);
  return { service, close: () => service.stop(0) };
});

test('a completion is shown as a conversation, with the tool calls that belong to it', async (context) => {
  const upstream = await tests.upstream({
    scripts: {
      'tools/list': toolList(toolText('echo'), toolText('unlucky')),
      'tools/call': ({ params }) =>
        params.name === 'echo' ? textResultText('done') : '{"content":[{"type":"text","text":"bad"}],"isError":true}',
    },
  });
  await tests.service.register('forwards', { name: 'up', address: upstream.url });
  const response = await fetch(`http://${tests.service.addresses.inference}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify({ model: 'm-1', messages: [{ role: 'user', content: 'Is <b>this</b> inert?' }] }),
  });
  const { id } = Object(await response.json());
  for (const name of ['echo', 'unlucky'])
    await modernClient(tests.service.url()).call('tools/call', `{"name":"${name}"}`, { 'x-request-id': id });

  const page = await tests.open(context, '#/interactions');
  const row = page.locator('table tbody tr', { hasText: id });
  await row.getByRole('button', { name: 'Details' }).click();
  await dialog(page).getByText('Is <b>this</b> inert?').first().waitFor();
  await dialog(page).getByRole('link', { name: 'unlucky: tool error' }).waitFor();
  await dialog(page).getByRole('link', { name: 'echo: completed' }).click();
  await settled(page);
  await expect.poll(() => page.locator('h1.title').textContent()).toBe('Tool calls');
  await dialog(page).getByText('done').first().waitFor();

  await page.goto(`${tests.service.management}/admin/#/interactions?q=no-such-completion`);
  await page.getByText('Nothing matches').waitFor();
});
