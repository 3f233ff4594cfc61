import { describe, expect, it } from 'vitest';
import { legacyClient, modernClient, reply } from '../../../../../../test/fixtures/raw-client.ts';
import { toolList, toolText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { errorOf, lastCall, relayTests } from '../../../../testing/relay.ts';

const relay = relayTests();
const { register, upstreamWith } = relay;

/** The text of a tool whose parameters `region` and `n` are mirrored. */
function mirroring(name: string, region = 'Region'): string {
  const properties = `{"region":{"type":"string","x-mcp-header":"${region}"},"n":{"type":"integer","x-mcp-header":"N"}}`;
  return `{"name":"${name}","inputSchema":{"type":"object","properties":${properties}}}`;
}
const TOOLS = { 'tools/list': toolList(mirroring('m'), toolText('plain')) };
const BIG = '9223372036854775807';

describe('Mcp-Param headers of a modern client', () => {
  it('are rebuilt from the arguments, each once; undeclared ones are forwarded', async () => {
    const upstream = await upstreamWith(TOOLS);
    const caller = modernClient(await register(upstream.url, { prefix: 'p-' }));
    const headers = {
      'mcp-param-region': '=?base64?dXM=?=',
      'Mcp-Param-N': `${BIG}.0`,
      'mcp-param-other': '=?base64?w7w=?=',
    };
    const response = await caller.call('tools/call', `{"name":"p-m","arguments":{"region":"us","n":${BIG}}}`, headers);
    expect(reply(response)).toContain('done');
    const seen = lastCall(upstream).headers;
    expect(seen).toMatchObject({ 'mcp-param-region': 'us', 'mcp-param-n': BIG, 'mcp-param-other': '=?base64?w7w=?=' });
  });

  it.each([
    ['is missing', '{"region":"us"}', {}, 'Mcp-Param-Region'],
    ['is too much', '{}', { 'mcp-param-n': '1' }, 'Mcp-Param-N'],
    ['differs', `{"n":${BIG}}`, { 'mcp-param-n': '9223372036854775808' }, 'Mcp-Param-N'],
    ['is broken', '{"region":"us"}', { 'mcp-param-region': '=?base64?dXM?=' }, 'Mcp-Param-Region'],
  ])('are rejected when one %s, without a request to the upstream', async (_what, args, headers, named) => {
    const upstream = await upstreamWith(TOOLS);
    const caller = modernClient(await register(upstream.url));
    const response = await caller.call('tools/call', `{"name":"m","arguments":${args}}`, headers);
    expect([response.status, errorOf(response).code]).toEqual([400, -32020]);
    expect(errorOf(response).message).toContain(`tool "m": header ${named}`);
    expect(upstream.count('tools/call')).toBe(0);
  });

  it('are those that the tool declares to this client, not to others', async () => {
    const upstream = await upstreamWith({
      'tools/list': ({ params }) =>
        toolList(mirroring('m', JSON.stringify(params).includes('"sampling"') ? 'Place' : 'Region')),
    });
    const url = await register(upstream.url);
    const args = '{"name":"m","arguments":{"region":"us"}}';
    expect((await modernClient(url).call('tools/call', args, { 'mcp-param-region': 'us' })).status).toBe(200);
    expect(lastCall(upstream).headers['mcp-param-region']).toBe('us');
    const able = modernClient(url, '{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{}}');
    expect((await able.call('tools/call', args, { 'mcp-param-region': 'us' })).status).toBe(400);
    expect((await able.call('tools/call', args, { 'mcp-param-place': 'us' })).status).toBe(200);
    expect(lastCall(upstream).headers['mcp-param-place']).toBe('us');
  });

  it('are validated but not forwarded to a legacy upstream', async () => {
    const upstream = await upstreamWith(TOOLS, { eras: ['legacy'] });
    const caller = modernClient(await register(upstream.url));
    const args = '{"name":"m","arguments":{"region":"us"}}';
    expect((await caller.call('tools/call', args)).status).toBe(400);
    expect((await caller.call('tools/call', args, { 'mcp-param-region': 'us' })).status).toBe(200);
    expect(lastCall(upstream).headers['mcp-param-region']).toBeUndefined();
  });

  it('are not validated for a tool that declares none', async () => {
    const upstream = await upstreamWith(TOOLS);
    const caller = modernClient(await register(upstream.url));
    await caller.call('tools/call', '{"name":"plain","arguments":{"region":"us"}}', { 'mcp-param-region': 'other' });
    expect(lastCall(upstream).headers['mcp-param-region']).toBe('other');
  });
});

describe('Mcp-Param headers of translated calls', () => {
  it('are built for a modern upstream from the arguments of a legacy client', async () => {
    const upstream = await upstreamWith(TOOLS, { eras: ['modern'] });
    const caller = await legacyClient(await register(upstream.url));
    await caller.call('tools/call', `{"name":"m","arguments":{"region":" ü","n":${BIG}}}`);
    expect(lastCall(upstream).headers).toMatchObject({
      'mcp-param-region': `=?base64?${Buffer.from(' ü').toString('base64')}?=`,
      'mcp-param-n': BIG,
    });
  });

  it('are built for the address of a manual tool', async () => {
    const upstream = await upstreamWith({}, { eras: ['modern'] });
    const namespace = 'by-hand';
    await relay.service.register('tools', {
      name: 'hand',
      namespace,
      description: '',
      uri: upstream.url,
      toolType: 'custom',
      input_schema: { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' } } },
    });
    const url = relay.service.url(namespace);
    const args = '{"name":"hand","arguments":{"region":"us"}}';
    expect((await modernClient(url).call('tools/call', args)).status).toBe(400);
    expect((await modernClient(url).call('tools/call', args, { 'mcp-param-region': 'us' })).status).toBe(200);
    expect(lastCall(upstream).headers['mcp-param-region']).toBe('us');
  });
});
