import { describe, expect, it } from 'vitest';
import { type Era, MODERN_VERSION, type ScriptedResponse } from '../../../../test/fixtures/raw-upstream/message.ts';
import { LIST_END, textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startCodeService } from '../../testing/code-service.ts';
import { responseTo } from '../../testing/live-tests.ts';
import { startLiveUpstream } from '../../testing/live-upstream.ts';
import { eras, relayTests } from '../../testing/relay.ts';
import { ResponseReader, sessionClient } from '../../testing/session-client.ts';
import { startWorkingService } from '../upstreams/grpc/fixtures/working-service.ts';
import { COMMENTS, open, startImpatientService } from './fixtures/silence.ts';

const tests = relayTests(startImpatientService);

const CAPABILITIES = `{"tools":{},"resources":{},"prompts":{},"completions":{},"jobs":{},"extensions":{"example.com/x":{}}}`;
const SERVER = '"serverInfo":{"name":"declaring","version":"1"}';

/** An upstream that responds when the test lets it. */
async function heldUpstream(method: string, response: string | ScriptedResponse, only: readonly Era[] = eras) {
  const held = Promise.withResolvers<void>();
  const upstream = await tests.upstreamWith(
    {
      initialize: `{"protocolVersion":"2025-11-25","capabilities":${CAPABILITIES},${SERVER}}`,
      'server/discover': `{"supportedVersions":["${MODERN_VERSION}"],"capabilities":${CAPABILITIES},${SERVER},${LIST_END}`,
      'tools/list': toolList(toolText('a')),
      'resources/list': `{"resources":[{"uri":"x://r","name":"r"}],${LIST_END}`,
      'prompts/list': `{"prompts":[{"name":"p"}],${LIST_END}`,
      [method]: async () => {
        await held.promise;
        return response;
      },
    },
    { eras: only },
  );
  return { upstream, url: await tests.register(upstream.url), release: held.resolve };
}

/** The last event, and everything before it. */
function endOf({ text }: ResponseReader): { before: string; last: unknown } {
  const start = text.lastIndexOf('event: message\n');
  const last = /^event: message\ndata: (.*)\n\n$/.exec(text.slice(start))?.[1] ?? '';
  return { before: text.slice(0, start), last: JSON.parse(last) };
}

const METHODS = [
  ['tools/call', '{"name":"a"}'],
  ['resources/read', '{"uri":"x://r"}'],
  ['prompts/get', '{"name":"p"}'],
  ['completion/complete', '{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}}'],
  ['jobs/get', '{"jobId":"j"}'],
] as const;
const WAYS = [
  ['a client of its era', eras],
  ['an upstream of the other era', undefined],
] as const;
const CASES = eras
  .flatMap((era) =>
    METHODS.flatMap(([method, params]) => WAYS.map(([way, only]) => ({ era, method, params, way, only }))),
  )
  .filter(({ method, only }) => only || method !== 'jobs/get');

describe('a request without an answer', () => {
  it.each(CASES)('$method of a $era client gets a stream of comments, and its result ($way)', async (one) => {
    const { era, method, params, only = [era === 'modern' ? 'legacy' : 'modern'] } = one;
    const { url, release } = await heldUpstream(method, '{"x":1.0,"resultType":"complete"}', only);
    const reader = open({ era, url, method, params });
    const { statusCode, headers } = await reader.head;
    expect([statusCode, headers['content-type'], headers['x-accel-buffering']]).toEqual([
      200,
      'text/event-stream',
      'no',
    ]);
    await reader.matching(COMMENTS);
    release();
    expect(await reader.ended).toBe(true);
    expect(endOf(reader)).toEqual({
      before: expect.stringMatching(/^(:\n\n)+$/),
      last: { jsonrpc: '2.0', id: 'c', result: expect.objectContaining({ x: 1 }) },
    });
  });

  it.each(
    eras.flatMap(
      (era) =>
        [
          { era, response: { kind: 'error', text: '{"code":-32050,"message":"no"}', status: 422 }, code: -32050 },
          { era, response: { kind: 'http', status: 503, type: 'text/plain', body: 'no' }, code: -32603 },
          { era, response: { kind: 'cut' }, code: -32603 },
        ] as const,
    ),
  )('of a $era client gets an error of its upstream as the last event ($response.kind)', async ({ era, ...one }) => {
    const { url, release } = await heldUpstream('tools/call', one.response);
    const reader = open({ era, url, method: 'tools/call', params: '{"name":"a"}' });
    await reader.matching(COMMENTS);
    release();
    expect(await reader.ended).toBe(true);
    expect(endOf(reader).last).toMatchObject({ id: 'c', error: { code: one.code } });
  });

  it.each(eras)('of a %s client that accepts JSON alone gets nothing before its answer', async (era) => {
    const error: ScriptedResponse = { kind: 'error', text: '{"code":-32050,"message":"no"}', status: 422 };
    const { url, release } = await heldUpstream('tools/call', error);
    const call = { era, url, method: 'tools/call', params: '{"name":"a"}' };
    const reader = open({ ...call, headers: { accept: 'application/json' } });
    await open(call).matching(COMMENTS);
    release();
    expect(await reader.ended).toBe(true);
    expect((await reader.head).headers['content-type']).toBe('application/json');
    expect((await reader.head).statusCode).toBe(era === 'modern' ? 422 : 200);
    expect(JSON.parse(reader.text)).toEqual({ jsonrpc: '2.0', id: 'c', error: { code: -32050, message: 'no' } });
  });

  it.each([
    ['2025-11-25', /^id: .+\ndata: ?\n\n(:\n\n)+$/],
    ['2025-06-18', /^(:\n\n)+$/],
  ])('in a session of %s has the id of its stream only where that is known', async (version, before) => {
    const { url, release } = await heldUpstream('tools/call', textResultText('done'));
    const client = await sessionClient(url, { version });
    const reader = open({
      era: 'legacy',
      url,
      method: 'tools/call',
      params: '{"name":"a"}',
      headers: client.headers,
    });
    await reader.matching(COMMENTS);
    expect(reader.text).toMatch(before);
    release();
    expect(await reader.ended).toBe(true);
    expect(JSON.parse(reader.messages[0] ?? '')).toMatchObject({ id: 'c', result: { content: [{ text: 'done' }] } });
  });

  it('on a stream that was resumed has comments there', async () => {
    const { url, release } = await heldUpstream('tools/call', textResultText('done'));
    const client = await sessionClient(url);
    const reader = open({ era: 'legacy', url, method: 'tools/call', params: '{"name":"a"}', headers: client.headers });
    await reader.event(0);
    reader.disconnect();
    const again = client.listen(reader.lastId);
    await again.matching(COMMENTS);
    release();
    expect(await again.ended).toBe(true);
    expect(again.messages).toHaveLength(1);
  });

  it('that waits for a person has comments while its question is open', async () => {
    const upstream = await startLiveUpstream();
    tests.onEnd(upstream.close);
    const client = await sessionClient(await tests.register(upstream.url), { capabilities: '{"elicitation":{}}' });
    const reader = client.call('"c"');
    const call = await upstream.calls.next();
    call.begin();
    call.request('7', 'elicitation/create', '{"message":"m","requestedSchema":{"type":"object","properties":{}}}');
    const question = await reader.message(0);
    await reader.matching(/elicitation\/create.+\n\n(:\n\n){3}/);
    await client.post(responseTo(question, '"result":{"action":"cancel"}'));
    await expect.poll(() => upstream.answers().length).toBe(1);
    call.end('done');
    expect(await reader.ended).toBe(true);
    expect(reader.messages).toHaveLength(2);
  });

  it('that waits for a person between two requests to a modern upstream has comments, too', async () => {
    const input = `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}}}`;
    const upstream = await tests.upstreamWith(
      { 'tools/call': ({ params }) => (params.inputResponses ? textResultText('done') : input) },
      { eras: ['modern'] },
    );
    const url = await tests.register(upstream.url);
    const client = await sessionClient(url, { capabilities: '{"elicitation":{}}' });
    const reader = open({ era: 'legacy', url, method: 'tools/call', params: '{"name":"a"}', headers: client.headers });
    const question = await reader.message(0);
    await reader.matching(/elicitation\/create.+\n\n(:\n\n){3}/);
    await client.post(responseTo(question, '"result":{"action":"cancel"}'));
    expect(JSON.parse(await reader.message(1))).toMatchObject({ result: { content: [{ text: 'done' }] } });
  });

  it.each(eras)('of a %s client that waits for a task has comments while that is polled', async (era) => {
    const task = (status: string, more = '') =>
      `"taskId":"t","status":"${status}","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":60000,"pollIntervalMs":100${more}`;
    let isOver = false;
    const done = `,"result":${textResultText('done')}`;
    const extension = '{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}';
    const upstream = await tests.upstreamWith(
      {
        'server/discover': `{"supportedVersions":["${MODERN_VERSION}"],"capabilities":${extension},${SERVER},${LIST_END}`,
        'tools/call': `{"resultType":"task",${task('working')}}`,
        'tasks/get': () => `{"resultType":"complete",${isOver ? task('completed', done) : task('working')}}`,
      },
      { eras: ['modern'] },
    );
    const url = await tests.register(upstream.url);
    const reader = open({ era, url, method: 'tools/call', params: '{"name":"a"}' });
    await reader.matching(COMMENTS);
    await expect.poll(() => upstream.count('tasks/get')).toBeGreaterThan(0);
    isOver = true;
    expect(await reader.ended).toBe(true);
    expect(endOf(reader).last).toMatchObject({ result: { content: [{ text: 'done' }] } });
  });

  it('of a session about a subscription has comments', async () => {
    const upstream = await startLiveUpstream({ uris: ['x://r'] });
    tests.onEnd(upstream.close);
    const held = Promise.withResolvers<string>();
    upstream.results['resources/subscribe'] = () => held.promise;
    const url = await tests.register(upstream.url);
    const { headers } = await sessionClient(url);
    const reader = open({ era: 'legacy', url, method: 'resources/subscribe', params: '{"uri":"x://r"}', headers });
    await reader.matching(COMMENTS);
    held.resolve('{}');
    expect(await reader.ended).toBe(true);
    expect(reader.messages).toEqual(['{"jsonrpc":"2.0","id":"c","result":{}}']);
  });

  it('in a batch has comments on the stream of that', async () => {
    const { url, release } = await heldUpstream('tools/call', textResultText('done'));
    const { headers } = await sessionClient(url, { version: '2025-03-26' });
    const call = (id: number) => `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"a"}}`;
    const post = (accept: string) =>
      new ResponseReader(
        url,
        'POST',
        { 'content-type': 'application/json', ...headers, accept },
        `[${call(1)},${call(2)}]`,
      );
    const reader = post('application/json, text/event-stream');
    const array = post('application/json');
    await reader.matching(COMMENTS);
    expect(array.text).toBe('');
    release();
    expect([await reader.ended, await array.ended]).toEqual([true, true]);
    expect(reader.text).toMatch(/^(:\n\n)+event/);
    expect(reader.messages).toHaveLength(2);
    expect(JSON.parse(array.text)).toHaveLength(2);
  });

  it.each(eras)('of a %s client about a task has comments while its upstream is silent', async (era) => {
    const upstream = await startLiveUpstream({
      capabilities: '{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}',
    });
    tests.onEnd(upstream.close);
    upstream.results['tools/list'] =
      '{"tools":[{"name":"work","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}';
    const held = Promise.withResolvers<string>();
    upstream.results['tasks/get'] = () => held.promise;
    const url = await tests.register(upstream.url);
    const capabilities = '{"extensions":{"io.modelcontextprotocol/tasks":{}}}';
    const { headers } = era === 'legacy' ? await sessionClient(url) : { headers: {} };
    const task = era === 'legacy' ? ',"task":{"ttl":60000}' : '';
    const request = { era, url, headers, capabilities };
    const created = open({ ...request, method: 'tools/call', params: `{"name":"work"${task}}` });
    const call = await upstream.calls.next();
    const times = '"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":60000';
    const state = `"taskId":"t","status":"working",${times}`;
    call.response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(`{"jsonrpc":"2.0","id":${call.id},"result":{"task":{${state}}}}`);
    await created.ended;
    const { result } = JSON.parse(created.messages.at(-1) ?? '');
    const { taskId } = result.task ?? result;
    const reader = open({ ...request, method: 'tasks/get', params: JSON.stringify({ taskId }) });
    await reader.matching(COMMENTS);
    held.resolve(`{${state}}`);
    expect(await reader.ended).toBe(true);
    expect(JSON.parse(reader.messages[0] ?? '')).toMatchObject({ id: 'c', result: { taskId, status: 'working' } });
  });

  it.each(eras)('of a %s client to a capability service has comments', async (era) => {
    const held = Promise.withResolvers<void>();
    const worker = await startWorkingService({
      tool: (call) => void held.promise.then(() => call.reply()),
      resource: (call) => void held.promise.then(() => call.reply()),
    });
    tests.onEnd(async () => worker.close());
    const { service } = tests;
    const address = { name: 'worker', serviceType: 'multi-capability', host: '127.0.0.1', port: worker.port };
    await service.manage('POST', '/services', address);
    tests.onEnd(() => service.manage('DELETE', '/services/worker'));
    const tool = {
      name: 'work',
      description: '',
      toolType: 'worker',
      uri: 'work://',
      input_schema: { type: 'object' },
    };
    await service.register('tools', tool);
    tests.onEnd(() => service.manage('DELETE', '/tools/work'));
    await service.register('resources', { name: 'page', location: 'page://1', type: 'worker' });
    tests.onEnd(() => service.manage('DELETE', '/resources/page'));
    const url = service.url();
    const call = open({ era, url, method: 'tools/call', params: '{"name":"work","arguments":{}}' });
    const read = open({ era, url, method: 'resources/read', params: '{"uri":"page://1"}' });
    for (const reader of [call, read]) await reader.matching(COMMENTS);
    held.resolve();
    for (const reader of [call, read]) expect(await reader.ended).toBe(true);
    expect(endOf(call).last).toMatchObject({ result: { content: [{ text: 'done' }] } });
    expect(endOf(read).before).toMatch(/^(:\n\n)+$/);
  });

  it.each(eras)('of a %s client that executes code has comments', async (era) => {
    const engine = await startCodeService();
    tests.onEnd(async () => engine.close());
    const { service } = tests;
    await service.register('tools', {
      name: 'run',
      description: '',
      uri: 'code-execution-engine://camel/java',
      toolType: 'mcp-forward',
      input_schema: { type: 'object' },
    });
    tests.onEnd(() => service.manage('DELETE', '/tools/run'));
    const runner = {
      name: 'runner',
      serviceType: 'code-execution-engine',
      serviceSubType: 'Camel',
      languageName: 'Java',
    };
    await service.manage('POST', '/services', { ...runner, address: `127.0.0.1:${engine.port}` });
    tests.onEnd(() => service.manage('DELETE', '/services/runner'));
    const params = '{"name":"run","arguments":{"code":"x"}}';
    const reader = open({ era, url: service.url(), method: 'tools/call', params });
    const execution = await engine.next();
    await reader.matching(COMMENTS);
    execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['a'] });
    execution.end();
    expect(await reader.ended).toBe(true);
    expect(endOf(reader).last).toMatchObject({ result: { content: [{ text: 'a' }] } });
  });
});

describe('a stream of notifications', () => {
  it.each(['2025-11-25', '2025-06-18'])('of a session of %s has comments, also when it is resumed', async (version) => {
    const client = await sessionClient(tests.service.url(), { version });
    const reader = client.listen();
    await reader.matching(COMMENTS);
    expect((await reader.head).headers['x-accel-buffering']).toBe('no');
    reader.disconnect();
    if (reader.lastId === '') return;
    const again = client.listen(reader.lastId);
    await again.matching(COMMENTS);
    again.disconnect();
  });

  it('of a modern client has comments', async () => {
    const params = '{"notifications":{"toolsListChanged":true}}';
    const reader = open({ era: 'modern', url: tests.service.url(), method: 'subscriptions/listen', params });
    await reader.message(0);
    await reader.matching(COMMENTS);
    expect((await reader.head).headers['x-accel-buffering']).toBe('no');
    reader.disconnect();
  });
});
