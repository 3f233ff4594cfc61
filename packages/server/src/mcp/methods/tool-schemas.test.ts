import { expect, test } from 'vitest';
import { connectLegacy } from '../../../../../test/fixtures/legacy-sdk-client.ts';
import { reply } from '../../../../../test/fixtures/raw-client.ts';
import type { Era } from '../../../../../test/fixtures/raw-upstream/message.ts';
import { toolList, toolText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { connect } from '../../../../../test/fixtures/sdk-client.ts';
import { client, eras, relayTests } from '../../../testing/relay.ts';

const relay = relayTests();
const { onEnd, register, upstreamWith } = relay;

/** Tool definitions that legacy clients reject, and their adapted form. */
const LIST_OF_TEXTS = ',"outputSchema":{"type":"array","items":{"type":"string"}},"n":1.0';
const REFUSED = [
  toolText('array', LIST_OF_TEXTS),
  toolText('either', ',"outputSchema":{"anyOf":[{"type":"object"},{"type":"object"}]}'),
  '{"name":"anything","inputSchema":{"type":"object","properties":{"value":true,"none":false}}}',
];
const TAKEN = [
  toolText('array', ',"n":1.0'),
  toolText('either'),
  '{"name":"anything","inputSchema":{"type":"object","properties":{"value":{},"none":{"not":{}}}}}',
];
const OTHERS = [toolText('object', ',"outputSchema":{"type":"object","properties":{"a":{}}}'), toolText('plain')];

/** An upstream of one era with these tools, in a separate namespace. */
async function offering(era: Era, tools: readonly string[]): Promise<string> {
  const upstream = await upstreamWith({ 'tools/list': toolList(...tools) }, { eras: [era] });
  return register(upstream.url);
}

test.each(eras)('a legacy client can read the tools of a %s upstream with such schemas', async (era) => {
  const url = await offering(era, [...REFUSED, ...OTHERS]);
  const legacy = await connectLegacy(url);
  onEnd(() => legacy.close());
  const { tools } = await legacy.listTools();
  expect(tools.map(({ name }) => name)).toEqual(['array', 'either', 'anything', 'object', 'plain']);
  expect(tools.map(({ outputSchema }) => outputSchema)).toEqual([
    undefined,
    undefined,
    undefined,
    { type: 'object', properties: { a: {} } },
    undefined,
  ]);
});

test('a legacy client gets all other members of such tools unchanged', async () => {
  const url = await offering('modern', [...REFUSED, ...OTHERS]);
  expect(reply(await (await client('legacy', url)).call('tools/list'))).toContain(
    `"tools":[${[...TAKEN, ...OTHERS].join(',')}]`,
  );
});

test.each(eras)('a modern client gets the tools of a %s upstream unchanged', async (era) => {
  const url = await offering(era, [...REFUSED, ...OTHERS]);
  expect(reply(await (await client('modern', url)).call('tools/list'))).toContain(
    `"tools":[${[...REFUSED, ...OTHERS].join(',')}]`,
  );
  const modern = await connect(url, 'modern');
  onEnd(modern.close);
  const { tools } = await modern.client.listTools();
  expect(tools.map(({ outputSchema }) => outputSchema)).toEqual([
    { type: 'array', items: { type: 'string' } },
    { anyOf: [{ type: 'object' }, { type: 'object' }] },
    undefined,
    { type: 'object', properties: { a: {} } },
    undefined,
  ]);
});

test('a legacy client gets an adapted manual tool too', async () => {
  const namespace = 'schemas-by-hand';
  const made = { namespace, description: 'd', uri: 'http://127.0.0.1:1/mcp', toolType: 'custom' };
  const input = { type: 'object', properties: { value: true } };
  await relay.service.register('tools', {
    ...made,
    name: 'own',
    input_schema: input,
    output_schema: { type: 'array' },
  });
  const legacy = await connectLegacy(relay.service.url(namespace));
  onEnd(() => legacy.close());
  const { tools } = await legacy.listTools();
  expect(tools[0]?.inputSchema).toEqual({ type: 'object', properties: { value: {} } });
  expect(tools[0]).not.toHaveProperty('outputSchema');
  const caller = await client('modern', relay.service.url(namespace));
  expect(reply(await caller.call('tools/list'))).toContain('"outputSchema":{"type":"array"}');
});
