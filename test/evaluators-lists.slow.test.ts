import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  type EvaluatedService,
  errorOf,
  evaluator,
  resultOf,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';
import { legacyClient, modernClient, type RawClient, reply } from './fixtures/raw-client.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { connect } from './fixtures/sdk-client.ts';

// Tool lists that an action filters.

/** In an unusual format, which shows that they are not serialized again. */
const TOOLS = [
  '{"inputSchema" : {"type":"object", "properties":{"n":{"minimum":1.50}}},"name":"b","description":"\\u00e9"}',
  '{"name":"a","inputSchema":{"type":"object"},"vendor":{"z":1,"a":123456789012345678901}}',
  '{"name":"größe","inputSchema":{"type":"object"},"title":"\\ud83d\\ude00"}',
  '{"name":"d","inputSchema":{"type":"object"}}',
];

/** Caching hints of the upstream, and those of evaluated lists. */
const CACHEABLE = '"ttlMs":60000,"cacheScope":"public"';
const NOT_CACHEABLE = '"ttlMs":0,"cacheScope":"private"';
const LIST_END = `"resultType":"complete",${CACHEABLE}}`;

let evaluated: EvaluatedService;
let upstream: RawUpstream;
beforeAll(async () => {
  [evaluated, upstream] = await Promise.all([
    startEvaluatedService(),
    startRawUpstream({
      scripts: {
        'tools/list': `{"tools":[${TOOLS.join(',')}],${LIST_END}`,
        'prompts/list': `{"prompts":[{"name":"p"}],${LIST_END}`,
        'resources/list': `{"resources":[{"name":"r","uri":"file:///r"}],${LIST_END}`,
        'resources/templates/list': `{"resourceTemplates":[{"name":"t","uriTemplate":"file:///{t}"}],${LIST_END}`,
      },
    }),
  ]);
  await evaluated.service.register('forwards', { name: 'crm', address: upstream.url, namespace: 'crm' });
  const otherNamespace = {
    name: 'elsewhere',
    description: 'd',
    uri: 'x:1',
    toolType: 'x',
    input_schema: { type: 'object' },
  };
  await evaluated.service.register('tools', otherNamespace);
  return async () => {
    await evaluated.close();
    await upstream.close();
  };
}, 120_000);

describe.each(['legacy', 'modern'] as const)('a list for a %s client', (era) => {
  let client: RawClient;
  let fullList: string;
  beforeAll(async () => {
    const url = evaluated.service.url('crm');
    client = era === 'legacy' ? await legacyClient(url) : modernClient(url);
    await evaluated.apply();
    fullList = reply(await client.call('tools/list'));
  });

  let requested: number;
  beforeEach(() => {
    requested = evaluated.llm.requests.length;
  });
  /** Lists with one evaluator per command. */
  async function listed(...llmOutput: string[]): Promise<string> {
    await evaluated.apply(
      ...llmOutput.map((each, at) => evaluator(`gate-${at}`, { method: 'tools/list', llmOutput: each })),
    );
    const response = await client.call('tools/list');
    expect(response.status).toBe(200);
    return reply(response);
  }
  /** Returns the text between the brackets of `tools`; tools contain none. */
  const itemsOf = (list: string) => /"tools":\[(.*?)\]/.exec(list)?.[1];
  const idless = (text: string) => text.replace(/"id":\d+/, '');
  /** Returns a list as it is after an evaluation without a filter. */
  const uncacheable = (list: string) => idless(list).replace(CACHEABLE, NOT_CACHEABLE);
  const namesOf = (list: string) => {
    const { tools } = parseObject(parseObject(list).result);
    return Array.isArray(tools) ? tools.map((tool) => parseObject(tool).name) : undefined;
  };

  it('has all tools without a filter', async () => {
    expect(namesOf(fullList)).toEqual(['b', 'a', 'größe', 'd']);
    for (const llmOutput of ['pass', 'none', 'warn:x', 'metadata:a=b'])
      expect(idless(await listed(llmOutput))).toBe(uncacheable(fullList));
  });

  it.each(['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'])(
    'is not cacheable if an evaluator matches %s, or later requests would bypass it',
    async (method) => {
      const listItems = async () => idless(reply(await client.call(method)));
      await evaluated.apply();
      const usual = await listItems();
      if (era === 'modern') expect(usual).toContain(CACHEABLE);
      // Neither in another namespace, nor for another method.
      await evaluated.apply(evaluator('gate', { method, namespace: 'default' }), evaluator('other'));
      expect(await listItems()).toBe(usual);
      await evaluated.apply(evaluator('gate', { method, namespace: 'crm' }));
      expect(await listItems()).toBe(uncacheable(usual));
      if (era === 'modern') expect(uncacheable(usual)).toContain(NOT_CACHEABLE);
      // Nor after a failure with on_error continue.
      await evaluated.apply(evaluator('gate', { method, connection: 'nobody' }));
      expect(await listItems()).toBe(uncacheable(usual));
      await evaluated.apply();
      expect(await listItems()).toBe(usual);
    },
  );

  it.each([
    ['as they are, in the order of registration', 'd,größe,b', ['b', 'größe', 'd']],
    ['once, however often they are named', 'a,a,d,a', ['a', 'd']],
    ['without those that there are not', 'a,nobody has this,A', ['a']],
    ['without those of other namespaces', 'elsewhere,a', ['a']],
    ['and none, where none is named', '', []],
    ['and none, where none of the named is there', 'nobody has this', []],
    ['all of them', 'größe,d,a,b', ['b', 'a', 'größe', 'd']],
  ])('has the filtered tools %s', async (_which, names, expected) => {
    const list = await listed(`filter:${names}`);
    expect(namesOf(list)).toEqual(expected);
    const texts = itemsOf(fullList)?.match(/\{.*?\}(?=,\{|$)/g) ?? [];
    const stored = texts.filter((text) => expected.includes(String(parseObject(text).name)));
    expect(stored).toHaveLength(expected.length);
    expect(itemsOf(list)).toBe(stored.join(','));
  });

  it('has the members of its era', async () => {
    const result = resultOf({ status: 200, headers: {}, text: await listed('filter:a') });
    const expectedMembers = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
    if (era === 'modern') {
      expect(result).toMatchObject(expectedMembers);
    } else {
      expect(Object.keys(parseObject(result))).toEqual(['tools']);
    }
  });

  it('calls no evaluator after the filter, and no upstream', async () => {
    const seen = upstream.count('tools/list');
    const list = await listed('pass', 'filter:a', 'block:too late', 'filter:b');
    expect([namesOf(list), evaluated.llm.requests.length - requested]).toEqual([['a'], 2]);
    expect(upstream.count('tools/list')).toBe(seen);
  });

  it('is rejected if an earlier evaluator blocks, and complete if the filtering action traps', async () => {
    expect(errorOf({ status: 200, headers: {}, text: await listed('block:no', 'filter:a') })).toMatchObject({
      message: 'no',
    });
    expect(idless(await listed('filter:a+trap'))).toBe(uncacheable(fullList));
  });

  it('is filtered for the evaluated request only', async () => {
    await listed('filter:a');
    await evaluated.apply();
    expect(idless(reply(await client.call('tools/list')))).toBe(idless(fullList));
  });

  it.each([
    ['resources/list', '{}'],
    ['prompts/list', '{}'],
    ['tools/call', '{"name":"a"}'],
  ])('applies to tools only: a filter for %s is ignored', async (method, params) => {
    await evaluated.apply();
    const usual = idless(reply(await client.call(method, params)));
    await evaluated.apply(
      evaluator('gate', { method, llmOutput: 'filter:a' }),
      evaluator('next', { method, llmOutput: 'pass' }),
    );
    const before = evaluated.lines().length;
    expect(idless(reply(await client.call(method, params)))).toBe(uncacheable(usual));
    // Counts as a pass, so the next evaluator runs, too.
    expect(evaluated.llm.requests.length - requested).toBe(2);
    const lines = evaluated.lines().slice(before);
    expect(lines).toMatchObject([
      { level: 'warn', evaluator: 'gate', msg: 'action filter ignored: the request does not list tools' },
      { msg: 'evaluator decided', evaluator: 'gate', decision: 'pass' },
      { msg: 'evaluator decided', evaluator: 'next', decision: 'pass' },
    ]);
  });
});

describe.each(['legacy', 'modern'] as const)('the official client in the %s era', (era) => {
  it('is notified of each list with different evaluators, and lists again', async () => {
    await evaluated.apply();
    const seen: string[] = [];
    const changed = (kind: string) => ({
      debounceMs: 0,
      onChanged: (error: unknown, items: readonly { readonly name: string }[] | null) =>
        void seen.push(`${kind}: ${error ?? items?.map(({ name }) => name)}`),
    });
    const { client, close } = await connect(evaluated.service.url('crm'), era, {
      listChanged: { tools: changed('tools'), prompts: changed('prompts') },
    });
    expect((await client.listTools()).tools).toHaveLength(4);
    await evaluated.apply(
      evaluator('gate', { method: 'tools/list', namespace: 'crm', llmOutput: 'filter:a' }),
      evaluator('calls', { method: 'tools/call' }),
    );
    await expect.poll(() => seen).toEqual(['tools: a']);
    await evaluated.apply(evaluator('gate', { method: 'tools/list', namespace: 'crm', llmOutput: 'filter:b,d' }));
    await expect.poll(() => seen).toEqual(['tools: a', 'tools: b,d']);
    await evaluated.apply(evaluator('prompts', { method: 'prompts/list', llmOutput: 'pass' }));
    await expect.poll(() => seen.slice(2).toSorted()).toEqual(['prompts: p', 'tools: b,a,größe,d']);
    await close();
  });
});
