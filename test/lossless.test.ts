import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from './fixtures/free-port.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { legacyClient, messages, modernClient, type RawClient, reply } from './fixtures/raw-client.ts';
import type { Era } from './fixtures/raw-upstream/message.ts';
import { type RawUpstream, type RawUpstreamOptions, startRawUpstream } from './fixtures/raw-upstream.ts';

// Texts that parsing and serializing would not preserve: numbers beyond doubles, trailing zeros, exponents, keys that
// look like array indexes, unnecessary escapes, unknown members.
const NUMBERS =
  '[9223372036854775807,-9223372036854775808,1.0,1.50,-0,-0.0,1e400,1E5,1e-7,0.1000000000000000055511151231257827]';
const UNUSUAL = `{"2":"two","1":"one","b":null,"a":{"deep":[[],{},""]},"\\u00fc\\/":"\\ud83d\\ude00 \\u2028 \\"","n":${NUMBERS}}`;

const TOOL = `{"zeta":${UNUSUAL},"name":"exact","inputSchema":{"type":"object","properties":{"n":{"maximum":9223372036854775807,"default":1.0,"type":"integer"}},"$defs":{"2":true,"1":{}}},"description":"gr\\u00fc\\u00dfe","annotations":{"readOnlyHint":true,"custom":1e400},"icons":[{"src":"data:,","sizes":["any"],"theme":"dark","x":1.0}],"outputSchema":{"type":"object","properties":{"m":{"minimum":-9223372036854775808}}},"_meta":{"example.com/m":${NUMBERS}},"toolType":"theirs","namespace":{"own":"member"},"labels":[1.0],"uri":7}`;
const UNICODE_TOOL = '{"name":"grüße an alle","description":"","inputSchema":{"type":"object"}}';
const RESOURCE = `{"uri":"test://exact","size":9223372036854775807,"name":"exact","annotations":{"priority":1.0},"x":${UNUSUAL},"_meta":{}}`;
const TEMPLATE = `{"x":${UNUSUAL},"uriTemplate":"test://t/{id}","name":"t","mimeType":"text/plain"}`;
const PROMPT = `{"arguments":[{"name":"a","required":true,"x":1.0}],"name":"exact","title":"T","x":${UNUSUAL}}`;
const CONTENT =
  '[{"type":"text","text":"t\\u00e9xt","annotations":{"priority":1.0},"_meta":{"n":1e400}},{"type":"hologram","beam":9223372036854775807}]';

// Two forms of every response: the members required by the modern era come first or last.
const results = {
  'tools/list': `{"tools":[${TOOL},${UNICODE_TOOL}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`,
  'resources/list': `{"resources":[${RESOURCE}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`,
  'resources/templates/list': `{"resourceTemplates":[${TEMPLATE}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`,
  'prompts/list': `{"prompts":[${PROMPT}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`,
  'tools/call': `{"resultType":"complete","x":${UNUSUAL},"structuredContent":{"n":${NUMBERS},"2":1,"1":2},"content":${CONTENT},"_meta":{"example.com/m":${NUMBERS}},"isError":false}`,
  'resources/read': `{"contents":[{"uri":"test://exact","text":"","x":${UNUSUAL}}],"resultType":"complete","ttlMs":0,"cacheScope":"private","x":1e400}`,
  'prompts/get': `{"messages":[{"role":"user","content":{"type":"text","text":"","x":${UNUSUAL}}}],"resultType":"complete","x":1.0}`,
};
const ERROR = `{"code":-32050,"message":"qu\\u00f6ta \\"daily\\"","data":{"left":9223372036854775807,"x":${UNUSUAL}},"hint":1.0}`;

const forms: readonly (RawUpstreamOptions & { namespace: string })[] = [
  { namespace: 'json-first', form: 'json', idPlace: 'first' },
  { namespace: 'json-last', form: 'json', idPlace: 'last' },
  { namespace: 'stream-first', form: 'stream', idPlace: 'first' },
  { namespace: 'stream-last', form: 'stream', idPlace: 'last' },
];
const eras: readonly Era[] = ['legacy', 'modern'];
const cases = forms.flatMap(({ namespace }) => eras.map((era) => [era, namespace] as const));

const upstreams = new Map<string, RawUpstream>();
let gateway: Gateway;

beforeAll(async () => {
  const [management, mcp] = await Promise.all([freePort(), freePort()]);
  gateway = await startGateway({ management: `127.0.0.1:${management}`, mcp: `127.0.0.1:${mcp}` });
  for (const form of forms) {
    const upstream = await startRawUpstream({ ...form, port: await freePort(), scripts: results });
    upstreams.set(form.namespace, upstream);
    await gateway.forward(form.namespace, upstream.url, form.namespace);
  }
});
afterAll(async () => {
  await gateway.close();
  await Promise.all([...upstreams.values()].map((upstream) => upstream.close()));
});

function upstreamOf(namespace: string): RawUpstream {
  const upstream = upstreams.get(namespace);
  if (upstream === undefined) throw new Error(`no upstream in ${namespace}`);
  return upstream;
}

function connect(era: Era, namespace: string): Promise<RawClient> | RawClient {
  return era === 'legacy' ? legacyClient(gateway.url(namespace)) : modernClient(gateway.url(namespace));
}

/** Runs `work` while an upstream returns a different result of one method. */
async function scripted<T>(
  namespace: string,
  method: string,
  script: RawUpstream['scripts'][string],
  work: () => Promise<T>,
): Promise<T> {
  const { scripts } = upstreamOf(namespace);
  const usual = scripts[method];
  scripts[method] = script;
  try {
    return await work();
  } finally {
    if (usual === undefined) delete scripts[method];
    else scripts[method] = usual;
  }
}

describe.each(cases)('%s client, upstream of the %s era', (era, namespace) => {
  it.each([
    ['tools/list', TOOL],
    ['tools/list', UNICODE_TOOL],
    ['resources/list', RESOURCE],
    ['resources/templates/list', TEMPLATE],
    ['prompts/list', PROMPT],
  ])('%s relays the upstream objects byte for byte', async (method, text) => {
    const client = await connect(era, namespace);
    expect(reply(await client.call(method))).toContain(text);
  });

  it.each([
    ['tools/call', '{"name":"exact","arguments":{}}'],
    ['resources/read', '{"uri":"test://exact"}'],
    ['prompts/get', '{"name":"exact","arguments":{"a":"1"}}'],
  ] as const)('%s relays the upstream result byte for byte', async (method, params) => {
    const client = await connect(era, namespace);
    const response = await client.call(method, params);
    const text = reply(response);
    expect(text).toContain(`"result":${results[method]}`);
    expect(JSON.parse(text)).toMatchObject({ jsonrpc: '2.0', id: 1 });
    expect(response.status).toBe(200);
  });

  it('relays an upstream error byte for byte', async () => {
    const client = await connect(era, namespace);
    const text = await scripted(namespace, 'tools/call', { kind: 'error', text: ERROR }, async () =>
      reply(await client.call('tools/call', '{"name":"exact"}')),
    );
    expect(text).toContain(`"error":${ERROR}`);
    expect(JSON.parse(text)).toMatchObject({ jsonrpc: '2.0', id: 1 });
  });

  it('relays arguments to the upstream byte for byte', async () => {
    const client = await connect(era, namespace);
    const name = era === 'legacy' ? 'exact' : 'grüße an alle';
    await client.call('tools/call', `{"arguments":${UNUSUAL},"name":"${name}","x-unknown":${NUMBERS}}`);
    const call = upstreamOf(namespace).seen.findLast((seen) => seen.method === 'tools/call');
    expect(call?.era).toBe(era);
    expect(call?.body).toContain(`"arguments":${UNUSUAL}`);
    expect(call?.body).toContain(`"x-unknown":${NUMBERS}`);
    expect(call?.params.name).toBe(name);
  });

  it('relays progress byte for byte except its token', async () => {
    const tail = `"progress":1.0,"total":9223372036854775807,"message":"\\u00e9","x":${UNUSUAL}`;
    const params = '{"name":"exact","arguments":{}';
    const token = '"progressToken":"mine"';
    const texts = await scripted(
      namespace,
      'tools/call',
      ({ params: seen }) => {
        const meta = seen._meta;
        const given = typeof meta === 'object' && meta !== null && 'progressToken' in meta ? meta.progressToken : null;
        const progress = `{"progressToken":${JSON.stringify(given)},${tail}}`;
        const before = [`{"jsonrpc":"2.0","method":"notifications/progress","params":${progress}}`];
        return { kind: 'result', text: results['tools/call'], before };
      },
      async () =>
        era === 'legacy'
          ? messages(await (await connect(era, namespace)).call('tools/call', `${params},"_meta":{${token}}}`))
          : messages(await modernClient(gateway.url(namespace), '{}', token).call('tools/call', `${params}}`)),
    );
    expect(texts).toHaveLength(2);
    expect(texts[0]).toContain(tail);
    expect(JSON.parse(texts[0] ?? '')).toMatchObject({ params: { progressToken: 'mine' } });
    expect(texts[1]).toContain(`"result":${results['tools/call']}`);
  });
});

describe('lists read back from disk', () => {
  it.each(eras)('are byte for byte what the upstream sent (%s)', { tags: ['slow'] }, async (era) => {
    const namespace = 'json-first';
    await gateway.kill();
    await upstreamOf(namespace).down();
    try {
      await gateway.restart();
      const client = await connect(era, namespace);
      expect(reply(await client.call('tools/list'))).toContain(TOOL);
      expect(reply(await client.call('prompts/list'))).toContain(PROMPT);
      expect(reply(await client.call('resources/list'))).toContain(RESOURCE);
      expect(reply(await client.call('resources/templates/list'))).toContain(TEMPLATE);
    } finally {
      await upstreamOf(namespace).up();
    }
  });
});
