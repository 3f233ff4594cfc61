import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startBalancedGateway } from './fixtures/balanced-gateway.ts';
import { startDualEra } from './fixtures/dual-era.ts';
import { startEverything } from './fixtures/everything.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { type Inspector, type InspectorRun, prepareInspector } from './fixtures/inspector.ts';

const SERVER_INFO = 'io.modelcontextprotocol/serverInfo';

const lists = [['tools/list'], ['resources/list'], ['resources/templates/list'], ['prompts/list']];

const call = (name: string, args: Record<string, unknown> = {}) => [
  'tools/call',
  '--tool-name',
  name,
  '--tool-args-json',
  JSON.stringify(args),
];

const titled = (...requests: readonly (readonly string[])[]) =>
  requests.map((request) => [request.join(' '), request] as const);

let inspector: Inspector;
beforeAll(async () => {
  inspector = await prepareInspector();
});
afterAll(() => inspector.close());

/** A copy without the server's identity in `_meta`, the one member of these answers that may differ. */
function withoutServerInfo(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutServerInfo);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => key !== SERVER_INFO)
      .map(([key, member]) => [key, withoutServerInfo(member)])
      .filter(([key, member]) => key !== '_meta' || Object.keys(Object(member)).length > 0),
  );
}

/**
 * Expected output in the modern era for this legacy output: tools have no `execution`, results of reads must not be cached, and
 * the type of results of calls is shown, since the server may answer with a task.
 */
function inModernEra(run: InspectorRun, method: string): InspectorRun {
  if (!Object.hasOwn(Object(run.output), 'result')) return run;
  const result: Record<string, unknown> = { ...Object(Object(run.output).result) };
  if (Array.isArray(result.tools)) result.tools = result.tools.map(({ execution: _, ...tool }) => tool);
  if (method === 'tools/call') result.resultType = 'complete';
  if (method === 'resources/read') Object.assign(result, { ttlMs: 0, cacheScope: 'private' });
  return { ...run, output: { result } };
}

/** Asserts that the inspector sees through the gateway what it sees from the upstream itself. */
async function expectSame(
  upstream: string,
  gateway: Gateway,
  era: 'legacy' | 'auto' | 'modern',
  [method = '', ...args]: readonly string[],
): Promise<InspectorRun> {
  const [direct, through] = await Promise.all([
    inspector.run(upstream, era, method, ...args),
    inspector.run(gateway.url(), era, method, ...args),
  ]);
  expect(withoutServerInfo(through)).toEqual(withoutServerInfo(direct));
  expect(direct.output ?? direct.error).toBeDefined();
  return direct;
}

describe('the inspector in front of the reference server', () => {
  let upstream: Awaited<ReturnType<typeof startEverything>>;
  let gateway: Gateway;
  beforeAll(async () => {
    [upstream, gateway] = await Promise.all([startEverything(), startGateway()]);
    await gateway.forward('everything', upstream.url);
  });
  afterAll(() => Promise.all([upstream.close(), gateway.close()]));

  const requests = titled(
    ...lists,
    call('echo', { message: 'hi' }),
    call('get-sum', { a: 2, b: 40 }),
    call('get-tiny-image'),
    call('get-structured-content', { location: 'New York' }),
    call('get-annotated-message', { messageType: 'error', includeImage: true }),
    call('get-resource-links', { count: 3 }),
    call('trigger-long-running-operation', { duration: 0.2, steps: 2 }),
    ['prompts/get', '--prompt-name', 'args-prompt', '--prompt-args', 'city=Ulm'],
    ['resources/read', '--uri', 'demo://resource/static/document/features.md'],
  );

  it.each(requests)('legacy, and modern alike: %s', async (_title, request) => {
    const direct = await expectSame(upstream.url, gateway, 'legacy', request);
    expect(direct.exitCode).toBe(0);
    const [method = '', ...args] = request;
    const modern = await inspector.run(gateway.url(), 'modern', method, ...args);
    expect(withoutServerInfo(modern)).toEqual(withoutServerInfo(inModernEra(direct, method)));
  });

  it.each(titled(call('get-sum', { a: 'x' }), call('nothing')))(
    'fails alike in both eras: %s',
    async (_title, request) => {
      const direct = await expectSame(upstream.url, gateway, 'legacy', request);
      expect(direct.exitCode).not.toBe(0);
      const [method = '', ...args] = request;
      expect(await inspector.run(gateway.url(), 'modern', method, ...args)).toEqual(inModernEra(direct, method));
    },
  );
});

describe.each([
  ['through one process', startGateway],
  ['through replicas', startBalancedGateway],
])('the inspector in front of a server of both eras, %s', (_through, start) => {
  let upstream: Awaited<ReturnType<typeof startDualEra>>;
  let gateway: Gateway;
  beforeAll(async () => {
    [upstream, gateway] = await Promise.all([startDualEra(), start()]);
    await gateway.forward('dual', upstream.url);
  });
  afterAll(() => Promise.all([upstream.close(), gateway.close()]));

  const calls = [
    call('weather_report', { city: 'Ulm' }),
    call('all_content'),
    call('big_numbers'),
    call('list_numbers'),
    call('echo_arguments', { nested: { list: [1, null, 'ü'] }, large: 9007199254740991, 'x-request-id': 'mine' }),
    call('test_tool_with_progress'),
    ['prompts/get', '--prompt-name', 'test_prompt_with_arguments', '--prompt-args', 'arg1=a', 'arg2=b'],
    ['resources/read', '--uri', 'test://template/7/data'],
  ];
  const failures = [call('test_error_handling'), call('protocol_error')];

  describe.each(['legacy', 'modern'] as const)('with --protocol-era %s', (era) => {
    it.each(titled(...lists, ...calls))('%s', async (_title, request) => {
      const { exitCode } = await expectSame(upstream.url, gateway, era, request);
      expect(exitCode).toBe(0);
    });

    it.each(titled(...failures))('%s', async (_title, request) => {
      const { exitCode } = await expectSame(upstream.url, gateway, era, request);
      expect(exitCode).not.toBe(0);
    });
  });

  describe('with --protocol-era auto', () => {
    it.each(titled(...lists, call('weather_report', { city: 'Ulm' })))('%s', async (_title, request) => {
      const { exitCode } = await expectSame(upstream.url, gateway, 'auto', request);
      expect(exitCode).toBe(0);
    });
  });
});
