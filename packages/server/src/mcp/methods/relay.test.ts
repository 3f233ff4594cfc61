import { describe, expect, it } from 'vitest';
import { messages, modernClient, reply } from '../../../../../test/fixtures/raw-client.ts';
import { capabilityScripts } from '../../../testing/capability-scripts.ts';
import { client, eras, errorOf, lastCall, relayTests } from '../../../testing/relay.ts';

const relay = relayTests();
const { register, upstreamWith } = relay;

const JOBS = '{"tools":{},"jobs":{"list":{}}}';
const EXTENDED = '{"tools":{},"extensions":{"example.com/jobs":{"n":9223372036854775807}}}';
const JOB = '{"jobId":"j1","status":"working","ttl":60000.0}';

/** Registers further upstreams in the namespace of `url`. */
async function join(url: string, ...addresses: readonly string[]): Promise<void> {
  const namespace = new URL(url).pathname.split('/')[1];
  for (const [index, address] of addresses.entries()) {
    await relay.service.register('forwards', {
      name: `${namespace}-${index}`,
      address,
      namespace,
      prefix: `${index}.`,
    });
  }
}

describe.each(eras)('a method known only to an upstream, from a %s client', (era) => {
  const declared = era === 'legacy' ? JOBS : EXTENDED;
  const unknown = [era === 'modern' ? 404 : 200, -32601];

  it('is forwarded unchanged to the only forward that declares its capability, and its response is returned', async () => {
    const upstream = await upstreamWith({
      ...capabilityScripts(declared),
      'jobs/get': { kind: 'result', text: JOB, before: ['{"jsonrpc":"2.0","method":"notifications/jobs/status"}'] },
      'jobs/cancel': { kind: 'error', text: '{"code":-32602,"message":"over","data":1.0}' },
    });
    const other = await upstreamWith(capabilityScripts('{"tools":{},"completions":{}}'));
    const url = await register(other.url);
    await join(url, upstream.url);
    const caller = await client(era, url, '"progressToken":"mine"');

    const response = await caller.call('jobs/get', '{"jobId":"j1","name":"0.a","uri":9223372036854775807}', {
      'mcp-name': 'j1',
    });
    expect(reply(response)).toContain(`"result":${JOB}`);
    expect(messages(response)[0]).toContain('notifications/jobs/status');
    const seen = lastCall(upstream, 'jobs/get');
    expect(seen.era).toBe(era);
    expect(seen.body).toContain('"jobId":"j1","name":"0.a","uri":9223372036854775807}');
    expect(seen.headers['mcp-name']).toBe(era === 'modern' ? 'j1' : undefined);
    expect(errorOf(await caller.call('jobs/cancel', '{"jobId":"j1"}'))).toEqual({
      code: -32602,
      message: 'over',
      data: 1,
    });
    expect(other.count('jobs/get')).toBe(0);
  });

  it('is forwarded to the only forward with extensions when none declares its capability', async () => {
    const upstream = await upstreamWith({
      ...capabilityScripts('{"tools":{},"experimental":{"lab":{}}}'),
      'acme/do': '{"done":1.0,"resultType":"complete"}',
    });
    const url = await register((await upstreamWith()).url);
    await join(url, upstream.url);
    expect(reply(await (await client(era, url)).call('acme/do'))).toContain('"result":{"done":1.0');
    // The client gets the upstream's own error for an unknown method.
    const response = await (await client(era, url)).call('acme/other');
    expect([response.status, errorOf(response)]).toEqual([unknown[0], { code: -32601, message: 'Method not found' }]);
  });

  it('is unknown where two forwards declare it, or none does', async () => {
    const one = await upstreamWith({ ...capabilityScripts(declared), 'jobs/get': JOB });
    const two = await upstreamWith({ ...capabilityScripts(declared), 'jobs/get': JOB });
    const url = await register(one.url);
    await join(url, two.url);
    for (const at of [url, await register((await upstreamWith({ 'jobs/get': JOB })).url)]) {
      const response = await (await client(era, at)).call('jobs/get', '{"jobId":"j1"}');
      expect([response.status, errorOf(response).code]).toEqual(unknown);
    }
    expect(one.count('jobs/get') + two.count('jobs/get')).toBe(0);
  });

  it("is unknown when it belongs to the protocol's core or looks like it, whatever upstreams declare", async () => {
    const upstream = await upstreamWith({
      ...capabilityScripts(
        '{"tools":{},"experimental":{"sampling":{},"notifications":{},"server":{},"roots":{},"Tools":{},"tasks":{}}}',
      ),
    });
    const caller = await client(era, await register(upstream.url));
    const otherEra =
      era === 'modern' ? ['initialize', 'ping', 'resources/subscribe', 'logging/setLevel'] : ['server/discover'];
    // Surrounding spaces are not part of a header, and it cannot contain other characters.
    const unusual = ['tools\u200b/call', 'ｔｏｏｌｓ/call', 'tools／call', 'toolſ/call'];
    const encoded = ['Tools/Call', 'TOOLS/LIST', 'tools//call', '/tools/call', 'tools/call/', 'tasks/delete'];
    if (era === 'legacy') encoded.push(' tools/call', 'tools/call ', ...unusual);
    const methods = [...otherEra, ...encoded, 'sampling/createMessage', 'roots/list', 'notifications/cancelled'];
    const arrived = () => methods.map(upstream.count);
    const before = arrived();
    for (const method of methods) {
      const response = await caller.call(method, '{"uri":"x://y","level":"debug"}', { 'mcp-name': 'x://y' });
      expect([method, response.status, errorOf(response).code]).toEqual([method, ...unknown]);
    }
    expect(arrived()).toEqual(before);
  });
});

describe('advertised capabilities', () => {
  it("are those translated between eras and those of forwards of the client's era, with their exact text", async () => {
    const legacy = await upstreamWith(capabilityScripts('{"tools":{},"logging":{},"jobs":{"n":1.0},"acme":{}}'), {
      eras: ['legacy'],
    });
    const modern = await upstreamWith(capabilityScripts(EXTENDED), { eras: ['modern'] });
    const url = await register(legacy.url);
    await join(url, modern.url);
    const opening = '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}';
    const always = '"tools":{"listChanged":true},"resources":{"listChanged":true},"prompts":{"listChanged":true}';
    const initialized = await (await client('legacy', url)).call('initialize', opening);
    // Two forwards declare jobs, so the owner is ambiguous.
    expect(initialized.text).toContain(`"capabilities":{${always},"logging":{},"acme":{}}`);
    const crossed = await modernClient(url).call('server/discover');
    expect(crossed.text).toContain(`"capabilities":{${always},"logging":{}}`);

    const alone = await register(modern.url);
    const discovered = await modernClient(alone).call('server/discover');
    expect(discovered.text).toContain('"extensions":{"example.com/jobs":{"n":9223372036854775807}}}');
  });
});
