import fc from 'fast-check';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { anyObjectSchema, fieldTexts } from '../fixtures/any-schema.ts';
import { consoleTests, dialog, rowOf } from '../fixtures/console.ts';
import { startDualEra } from '../fixtures/dual-era.ts';
import { MODERN } from '../fixtures/raw-client.ts';
import { parseObject } from '../fixtures/raw-upstream/message.ts';
import { LIST_END, textResultText, toolList, toolText } from '../fixtures/raw-upstream/texts.ts';
import { testSeed } from '../fixtures/seed.ts';

const tests = consoleTests();

/** Opens the tab of an entry of an upstream in a namespace of its own. */
async function tryEntry(context: Parameters<typeof tests.open>[0], page: string, key: string) {
  const opened = await tests.open(context, `#/${page}`);
  const upstream = await startDualEra();
  tests.onEnd(upstream.close);
  await tests.service.manage('DELETE', '/namespaces/tried?cascade=true');
  await tests.service.register('forwards', { name: 'tried', address: upstream.url, namespace: 'tried' });
  await opened.goto(`${tests.service.management}/admin/#/${page}?open=${encodeURIComponent(`tried/${key}`)}`);
  await opened.reload();
  await dialog(opened).getByRole('tab', { name: 'Try it' }).click();
  return opened;
}

test('calls a tool with a form made of its schema, as a client of the namespace', async (context) => {
  const page = await tryEntry(context, 'tools', 'weather_report');
  await dialog(page).locator('.schema-form input').first().fill('Bern');
  await dialog(page).getByRole('button', { name: 'Call' }).click();
  const result = dialog(page).getByRole('region', { name: 'Result' });
  await result.getByText('Bern').first().waitFor();
  await dialog(page).getByText('Raw exchange').click();
  expect(await dialog(page).locator('.exchange').allTextContents()).toEqual(
    expect.arrayContaining([expect.stringContaining('"method":"tools/call"')]),
  );
  const { data } = await tests.service.manage('GET', '/tool-calls');
  expect(data).toEqual(
    expect.arrayContaining([expect.objectContaining({ toolName: 'weather_report', via: 'console' })]),
  );
});

test('shows images from their data, and the question of a server before its result', async (context) => {
  const page = await tryEntry(context, 'tools', 'test_multiple_content_types');
  await dialog(page).getByRole('button', { name: 'Call' }).click();
  await dialog(page).locator('img[src^="blob:"]').waitFor();
  await page.goto(`${tests.service.management}/admin/#/tools?open=tried/test_input_required_result_elicitation`);
  await dialog(page).getByRole('tab', { name: 'Try it' }).click();
  await dialog(page).getByRole('button', { name: 'Call' }).click();
  const question = dialog(page).getByRole('region', { name: 'Question of the server' });
  await question.locator('input').first().fill('Ada');
  await question.getByRole('button', { name: 'Answer' }).click();
  await dialog(page).getByRole('region', { name: 'Result' }).getByText('Ada').first().waitFor();
});

test('shows the progress of a call while it runs', async (context) => {
  const page = await tests.open(context, '#/tools');
  const shown = Promise.withResolvers<void>();
  const progress = (token: unknown) =>
    `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${JSON.stringify(token)},"progress":50,"total":100,"message":"Completed step 50 of 100"}}`;
  const upstream = await tests.upstream({
    eras: ['modern'],
    scripts: {
      'tools/list': toolList(toolText('gradual')),
      'tools/call': ({ params }) => ({
        kind: 'result',
        text: textResultText('done'),
        before: [progress(parseObject(params._meta).progressToken)],
        until: shown.promise,
      }),
    },
  });
  await tests.service.register('forwards', { name: 'progress', address: upstream.url, namespace: 'progress' });
  await page.goto(`${tests.service.management}/admin/#/tools?open=progress/gradual`);
  await dialog(page).getByRole('tab', { name: 'Try it' }).click();
  await dialog(page).getByRole('button', { name: 'Call' }).click();
  await dialog(page).getByText('50 of 100: Completed step 50 of 100').waitFor();
  shown.resolve();
  await dialog(page).getByRole('region', { name: 'Result' }).getByText('done').first().waitFor();
});

test('shows log messages, sounds, links and the errors of tools', async (context) => {
  const page = await tryEntry(context, 'tools', 'test_tool_with_logging');
  const results = [
    ['test_tool_with_logging', () => dialog(page).getByText('Tool processing data')],
    ['test_audio_content', () => dialog(page).locator('audio[src^="blob:"]')],
    ['test_embedded_resource', () => dialog(page).getByText('An embedded resource.')],
    ['test_error_handling', () => dialog(page).getByText('The tool reports an error')],
  ] as const;
  for (const [tool, shown] of results) {
    await page.goto(`${tests.service.management}/admin/#/tools?open=tried/${tool}`);
    await dialog(page).getByRole('tab', { name: 'Try it' }).click();
    await dialog(page).getByRole('button', { name: 'Call' }).click();
    await dialog(page).getByRole('region', { name: 'Result' }).waitFor();
    await shown().first().waitFor({ state: 'attached' });
  }
});

test('a URL of the server is shown whole, and opened only if it is https and by a click', async (context) => {
  const page = await tests.open(context, '#/tools');
  const input = (url: string) =>
    `{"resultType":"input_required","inputRequests":{"login":{"method":"elicitation/create","params":{"mode":"url","elicitationId":"e-1","message":"Log in","url":"${url}"}}}}`;
  let url = 'https://login.example/start?state=1';
  const upstream = await tests.upstream({
    eras: ['modern'],
    scripts: {
      'tools/list': toolList(toolText('guarded')),
      'tools/call': ({ params }) => ('inputResponses' in params ? textResultText('welcome') : input(url)),
    },
  });
  await tests.service.register('forwards', { name: 'urls', address: upstream.url, namespace: 'urls' });
  await page.goto(`${tests.service.management}/admin/#/tools?open=urls/guarded`);
  await dialog(page).getByRole('tab', { name: 'Try it' }).click();
  const question = dialog(page).getByRole('region', { name: 'Question of the server' });
  await dialog(page).getByRole('button', { name: 'Call' }).click();
  await question.getByText(url).waitFor();
  const link = question.getByRole('link', { name: 'Open' });
  expect(await link.getAttribute('href')).toBe(url);
  expect(await link.getAttribute('rel')).toBe('noopener noreferrer');
  await question.getByRole('button', { name: 'Continue' }).click();
  await dialog(page).getByText('welcome').first().waitFor();
  url = 'http://login.example/start';
  await dialog(page).getByRole('button', { name: 'Call' }).click();
  await question.getByText('only https addresses are').waitFor();
  expect(await question.getByRole('link').count()).toBe(0);
});

test('reads a resource and gets a prompt', async (context) => {
  const page = await tryEntry(context, 'resources', 'test://static-text');
  await dialog(page).getByRole('button', { name: 'Read' }).click();
  await dialog(page).getByRole('region', { name: 'Result' }).getByRole('region', { name: 'Text' }).waitFor();
  await page.goto(`${tests.service.management}/admin/#/prompts?open=tried/test_prompt_with_arguments`);
  await dialog(page).getByRole('tab', { name: 'Try it' }).click();
  for (const [at, text] of ['one', 'two'].entries()) await dialog(page).getByRole('combobox').nth(at).fill(text);
  await dialog(page).getByRole('button', { name: 'Get' }).click();
  await dialog(page).getByRole('region', { name: 'Result' }).getByText('one').first().waitFor();
});

test('asks for the variables of a template, and offers the completions of the upstream', async (context) => {
  const page = await tests.open(context, '#/resources');
  const template = 'orders://{region}/{+path}{?page}';
  const read =
    '{"contents":[{"uri":"orders://north/a","text":"An order"}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}';
  const capabilities = '{"tools":{},"resources":{},"completions":{}}';
  const upstream = await tests.upstream({
    eras: ['modern'],
    scripts: {
      'server/discover': `{"supportedVersions":["${MODERN}"],"capabilities":${capabilities},"serverInfo":{"name":"orders","version":"1"},${LIST_END}`,
      'tools/list': `{"tools":[],${LIST_END}`,
      'resources/templates/list': `{"resourceTemplates":[{"uriTemplate":"${template}","name":"orders"}],${LIST_END}`,
      'completion/complete': '{"completion":{"values":["north","north-east"]},"resultType":"complete"}',
      'resources/read': read,
    },
  });
  await tests.service.register('forwards', { name: 'orders', address: upstream.url, namespace: 'orders' });
  await page.goto(`${tests.service.management}/admin/#/resources?open=${encodeURIComponent(`orders/${template}`)}`);
  await page.reload();
  await dialog(page).getByRole('tab', { name: 'Try it' }).click();
  await dialog(page).getByRole('combobox', { name: 'path' }).fill('2026/11');
  await dialog(page).getByRole('combobox', { name: 'region' }).fill('no');
  await dialog(page).getByRole('option', { name: 'north-east' }).click();
  await dialog(page).getByRole('button', { name: 'Read' }).click();
  await dialog(page).getByRole('region', { name: 'Result' }).getByText('An order').first().waitFor();
  const asked = upstream.seen.filter(({ method }) => method === 'completion/complete').map(({ params }) => params);
  expect(asked).toContainEqual(
    expect.objectContaining({
      ref: { type: 'ref/resource', uri: template },
      argument: { name: 'region', value: 'no' },
      context: { arguments: { path: '2026/11' } },
    }),
  );
  const uris = upstream.seen.filter(({ method }) => method === 'resources/read').map(({ params }) => params.uri);
  expect(uris).toEqual(['orders://north-east/2026/11']);
});

test('sends exactly what the form shows, opened by address or from the list', async (context) => {
  const page = await tests.open(context, '#/tools');
  const schemas = fc.sample(anyObjectSchema, { numRuns: FORMS, seed: testSeed() });
  const tools = schemas.map((inputSchema, index) =>
    JSON.stringify({ name: `form-${index}`, description: 'd', inputSchema }),
  );
  const upstream = await tests.upstream({
    eras: ['modern'],
    scripts: { 'tools/list': toolList(...tools), 'tools/call': () => textResultText('called') },
  });
  await tests.service.register('forwards', { name: 'forms', address: upstream.url, namespace: 'forms' });
  const list = `${tests.service.management}/admin/#/tools?namespace=forms`;
  const openings = [
    async (name: string) => {
      await page.goto('about:blank');
      await page.goto(`${list}&open=forms/${name}`);
    },
    async (name: string) => {
      await page.goto(list);
      await rowOf(page, name).getByRole('button', { name: 'Details' }).click();
    },
  ];
  for (const index of schemas.keys()) {
    for (const open of openings) {
      await open(`form-${index}`);
      await dialog(page).getByRole('tab', { name: 'Try it' }).click();
      await dialog(page).locator('.schema-form').waitFor();
      const before = upstream.count('tools/call');
      const shown = await shownFields(page);
      await dialog(page).getByRole('button', { name: 'Call', exact: true }).click();
      await dialog(page).getByRole('region', { name: 'Result' }).waitFor();
      expect(upstream.count('tools/call')).toBe(before + 1);
      const sent = upstream.seen.findLast(({ method }) => method === 'tools/call')?.params.arguments;
      expect(fieldTexts(sent), JSON.stringify(schemas[index])).toEqual(shown);
    }
  }
});

/** Forms that are opened in the browser; `schema-form.test.ts` tries many more. */
const FORMS = 15;

/** Texts of the fields of the form by id; those of selections, not of which alternative is shown. */
function shownFields(page: Page): Promise<Record<string, string>> {
  return page.evaluate<Record<string, string>>(`Object.fromEntries(
    [...document.querySelectorAll('.schema-form :is(input, textarea, select):not([type="checkbox"])')]
      .filter(({ id }) => !id.endsWith('of_select'))
      .map((field) => [field.id.replace(/^root_/, ''), field.selectedOptions?.[0]?.textContent ?? field.value])
      .filter(([, text]) => text !== ''),
  )`);
}
