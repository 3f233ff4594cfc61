import { describe, expect, it } from 'vitest';
import { type RawClient, reply } from '../../../../../test/fixtures/raw-client.ts';
import { client, eras, errorOf } from '../../../testing/relay.ts';
import { bridgeTests } from './fixtures/bridge-tests.ts';

const tests = bridgeTests();
const { registered, address, upstreamWith, onEnd } = tests;

let names = 0;

/** Registers a tool of a type until the end of the test and returns its name. */
async function tool(toolType: string, more: object = {}): Promise<string> {
  const name = `tool${++names}`;
  const entry = { name, description: '', toolType, uri: 'weather://x', input_schema: { type: 'object' }, ...more };
  await tests.service.register('tools', entry);
  onEnd(() => tests.service.manage('DELETE', `/tools/${name}`));
  return name;
}

/** Registers a resource of a type until the end of the test. */
async function resource(type: string, location: string, more: object = {}): Promise<void> {
  const name = `resource${++names}`;
  await tests.service.register('resources', { name, location, type, ...more });
  onEnd(() => tests.service.manage('DELETE', `/resources/${name}`));
}

/** Calls the tool and returns the result. */
async function result(by: RawClient, name: string, given = '{}', headers = {}): Promise<unknown> {
  const response = await by.call('tools/call', `{"name":"${name}","arguments":${given}}`, headers);
  expect(response.status).toBe(200);
  return JSON.parse(reply(response)).result;
}

function texts(isError: boolean, ...content: string[]): object {
  return { isError, content: content.map((text) => ({ type: 'text', text })) };
}

describe.each(eras)('for a client of the %s era', (era) => {
  const complete = era === 'modern' ? { resultType: 'complete' } : {};
  const read = era === 'modern' ? { ...complete, ttlMs: 0, cacheScope: 'private' } : complete;
  const own = () => client(era, tests.service.url());

  it('a tool is invoked in the service of its type, with a text block per content', async () => {
    const service = await registered('weather', { tool: (call) => call.reply(['sunny', '', '{"code":404}']) });
    const properties = { service_body: {}, city: {}, 'x-key': { target: 'header', scope: 'service', value: 'k' } };
    const input_schema = { type: 'object', properties, required: ['city'] };
    const name = await tool('weather', { input_schema, configurationURI: 'c://1', secretsURI: 's://1' });
    const given =
      '{"city":"Bern","n":9223372036854775807,"service_body":"B","service_meta_m":"1","service_auth_a":"s"}';
    expect(await result(await own(), name, given)).toEqual({
      ...texts(false, 'sunny', '', '{"code":404}'),
      ...complete,
    });
    expect(service.tools).toMatchObject([
      {
        request: {
          uri: 'weather://x',
          body: 'B',
          arguments: { city: 'Bern', n: '9223372036854775807' },
          configurationURI: 'c://1',
          secretsURI: 's://1',
          headers: { m: '1', 'x-key': 'k', a: 's' },
        },
      },
    ]);
  });

  it("an error reply is an error result with the service's texts", async () => {
    await registered('weather', { tool: (call) => call.reply(['no', 'way'], true) });
    expect(await result(await own(), await tool('weather'))).toEqual({ ...texts(true, 'no', 'way'), ...complete });
  });

  it('a reply without content is a result without content', async () => {
    await registered('weather', { tool: (call) => call.reply([]) });
    expect(await result(await own(), await tool('weather'))).toEqual({ ...texts(false), ...complete });
  });

  it('an invalid call is an error result with the reason and never reaches the service', async () => {
    const service = await registered('weather');
    const name = await tool('weather', { input_schema: { type: 'object', required: ['city', 'day'] } });
    const expected = { ...texts(true, 'Missing required parameter(s): city, day'), ...complete };
    expect(await result(await own(), name)).toEqual(expected);
    expect(service.tools).toEqual([]);
  });

  it('a tool without a service for its type is an error result', async () => {
    const expected = { ...texts(true, 'There is no host registered for service nobody'), ...complete };
    expect(await result(await own(), await tool('nobody'))).toEqual(expected);
  });

  it('a resource is acquired from the service of its type, with mime type and uri', async () => {
    const service = await registered('pages', { resource: (call) => call.reply(['one', 'two']) });
    const params = [{ name: 'a', value: 'b' }];
    await resource('pages', 'page://1', { mimeType: 'text/html', params, secretsURI: 's://1' });
    const response = await (await own()).call('resources/read', '{"uri":"page://1"}');
    const contents = ['one', 'two'].map((text) => ({ uri: 'page://1', mimeType: 'text/html', text }));
    expect(JSON.parse(reply(response)).result).toEqual({ contents, ...read });
    expect(service.resources).toMatchObject([
      {
        request: {
          location: 'page://1',
          type: 'pages',
          name: expect.stringMatching(/^resource/),
          params: { a: 'b' },
          configurationURI: '',
          secretsURI: 's://1',
        },
      },
    ]);
  });

  it('a resource template is acquired by the requested uri and is plain text', async () => {
    const service = await registered('pages', { resource: (call) => call.reply(['x']) });
    await resource('pages', 'page://{n}', { labels: { 'service.is_template': 'true' } });
    const response = await (await own()).call('resources/read', '{"uri":"page://7"}');
    const contents = [{ uri: 'page://7', mimeType: 'text/plain', text: 'x' }];
    expect(JSON.parse(reply(response)).result).toEqual({ contents, ...read });
    expect(service.resources.map(({ request }) => request.location)).toEqual(['page://7']);
  });

  it.each([
    ['with texts', ['not', 'there'], 'not\nthere'],
    ['without', [], 'service pages answered with an error and no text'],
  ])('a resource reply that is an error is -32603: %s', async (_what, content, message) => {
    await registered('pages', { resource: (call) => call.reply(content, true) });
    await resource('pages', 'page://1');
    const response = await (await own()).call('resources/read', '{"uri":"page://1"}');
    expect([response.status, errorOf(response)]).toEqual([200, { code: -32603, message }]);
  });

  it('a resource without a service for its type is -32603', async () => {
    await resource('nobody', 'page://1');
    const response = await (await own()).call('resources/read', '{"uri":"page://1"}');
    expect(errorOf(response)).toEqual({ code: -32603, message: 'There is no host registered for service nobody' });
  });

  it('the request id is forwarded, and no other header', async () => {
    const service = await registered('weather');
    const name = await tool('weather');
    const headers = { 'x-request-id': 'r-1', authorization: 'Bearer t', cookie: 'c=1', 'x-conversation-id': 'c-1' };
    const by = await own();
    await result(by, name, '{}', headers);
    await result(by, name);
    await result(by, name);
    const ids = service.tools.map(({ requestId }) => requestId);
    expect(ids).toEqual([
      ['r-1'],
      [expect.stringMatching(/^[0-9a-f-]{36}$/)],
      [expect.stringMatching(/^[0-9a-f-]{36}$/)],
    ]);
    expect(new Set(ids.flat()).size).toBe(3);
    const transport = ['accept-encoding', 'grpc-accept-encoding', 'te', 'user-agent', 'x-service-request-id'];
    for (const { metadata } of service.tools) {
      expect(metadata.filter((each) => !transport.includes(each))).toEqual([]);
    }
  });
});

describe('the handler of a tool', () => {
  const own = () => client('legacy', tests.service.url());

  it('is a forward for the type mcp-forward, whatever services are registered', async () => {
    const upstream = await upstreamWith();
    const service = await registered('mcp-forward');
    const name = await tool('mcp-forward', { uri: upstream.url });
    expect(await result(await own(), name)).toMatchObject({ content: [{ type: 'text', text: 'done' }] });
    expect(service.tools).toEqual([]);
  });

  it('is the service of its type rather than the upstream of its uri', async () => {
    const upstream = await upstreamWith();
    const service = await registered('weather', { tool: (call) => call.reply(['by the service']) });
    const name = await tool('weather', { uri: upstream.url });
    expect(await result(await own(), name)).toEqual(texts(false, 'by the service'));
    expect(service.tools).toHaveLength(1);
    expect(upstream.seen.filter(({ method }) => method === 'tools/call')).toEqual([]);
  });

  it('is InvokeTool also of a code engine if no tool invoker has the name', async () => {
    const service = await registered('elsewhere');
    await address('weather', service.port, { serviceType: 'code-execution-engine' });
    expect(await result(await own(), await tool('weather'))).toEqual(texts(false, 'done'));
    expect(service.tools).toHaveLength(1);
  });

  it('follows the registry', async () => {
    const [first, second] = [await registered('weather'), await registered('elsewhere')];
    const name = await tool('weather');
    const by = await own();
    await result(by, name);
    const moved = { name: 'weather', serviceType: 'multi-capability', host: '127.0.0.1', port: second.port };
    expect((await tests.service.manage('POST', '/services', moved)).status).toBe(200);
    await result(by, name);
    expect([first.tools.length, second.tools.length]).toEqual([1, 1]);
  });
});

it('a resource of the type mcp-forward has no service', async () => {
  const service = await registered('mcp-forward');
  await resource('mcp-forward', 'page://1');
  const response = await (await client('legacy', tests.service.url())).call('resources/read', '{"uri":"page://1"}');
  expect(errorOf(response).message).toBe('There is no host registered for service mcp-forward');
  expect(service.resources).toEqual([]);
});
