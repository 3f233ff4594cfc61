import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it, test } from 'vitest';
import {
  type EvaluatedService,
  errorOf,
  evaluator,
  resultOf,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';
import { legacyClient, modernClient, type RawResponse } from './fixtures/raw-client.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

// Host functions of actions.

let evaluated: EvaluatedService;
let upstream: RawUpstream;
beforeAll(async () => {
  [evaluated, upstream] = await Promise.all([
    startEvaluatedService({ RUST_LOG: 'trace' }),
    startRawUpstream({
      scripts: { 'tools/list': toolList(toolText('search'), toolText('same')), 'tools/call': textResultText('done') },
    }),
  ]);
  const { service } = evaluated;
  const tool = (name: string, namespace?: string) =>
    service.register('tools', {
      name,
      description: `${name} of ${namespace ?? 'default'}`,
      uri: `made:${name}`,
      toolType: 'made',
      input_schema: { type: 'object' },
      ...(namespace !== undefined && { namespace }),
    });
  await tool('same', 'ops');
  await tool('far', 'ops');
  await service.register('forwards', { name: 'crm', address: upstream.url, namespace: 'crm' });
  await tool('same');
  // Shadowed: the forward has registered that name first.
  await service.manage('POST', '/forwards', { name: 'late', address: `${upstream.url}?late`, namespace: 'crm' });
  await tool('far', 'later');
  return async () => {
    await evaluated.close();
    await upstream.close();
  };
}, 120_000);

let before: number;
beforeEach(() => {
  before = evaluated.service.log.length;
});
const lines = () => evaluated.service.log.slice(before).map(parseObject);

/** Sends a request in a namespace with an evaluator whose action executes this command. */
async function evaluate(llmOutput: string, namespace = 'crm', headers = {}, schema?: unknown): Promise<RawResponse> {
  await evaluated.apply(
    evaluator('gate', { method: 'vendor/asked', llmOutput, ...(schema !== undefined && { schema }) }),
  );
  return modernClient(evaluated.service.url(namespace)).call('vendor/asked', '{}', headers);
}
/** Returns the reason with which the action blocked. */
async function received(...args: Parameters<typeof evaluate>): Promise<unknown> {
  const { code, message } = parseObject(errorOf(await evaluate(...args)));
  expect(code).toBe(-32001);
  return message;
}
const namesIn = (response: RawResponse) => {
  const { tools } = parseObject(resultOf(response));
  return Array.isArray(tools) ? tools.map((tool) => parseObject(tool).name) : response.text;
};
/** Returns the tool names of a namespace, as listed to clients. */
const listed = async (namespace: string) =>
  namesIn(await modernClient(evaluated.service.url(namespace)).call('tools/list'));

describe('tools', () => {
  it('are listed for all namespaces, in order of registration, without shadowed ones', async () => {
    expect(await received('tools')).toBe(
      [
        'same/same of ops/made:same/made/ops',
        'far/far of ops/made:far/made/ops',
        `search/d/${upstream.url}/mcp-forward/crm`,
        `same/d/${upstream.url}/mcp-forward/crm`,
        'same/same of default/made:same/made/default',
        'far/far of later/made:far/made/later',
      ].join(' '),
    );
  });

  it('are listed for one namespace', async () => {
    expect(await received('tools:ops')).toBe('same/same of ops/made:same/made/ops far/far of ops/made:far/made/ops');
    expect(await received('tools:nowhere')).toBe('');
  });

  it.each([
    ['crm', 'same', 'd', 'crm'],
    ['ops', 'same', 'same of ops', 'ops'],
    ['later', 'same', 'same of default', 'default'],
    ['default', 'far', 'far of ops', 'ops'],
    ['later', 'far', 'far of later', 'later'],
    ['default', 'search', 'd', 'crm'],
  ])(
    'are looked up in the namespace of the request, in default, and elsewhere: in %s, %s',
    async (at, name, ...expected) => {
      const [found, description, , , namespace] = String(await received(`tool:${name}`, at))
        .replace('http://', '')
        .replace('/mcp/', '/')
        .split('/');
      expect([found, description, namespace]).toEqual([name, ...expected]);
    },
  );

  it('that do not exist are not found', async () => {
    expect(await received('tool:nobody has this')).toBe('none');
    expect(await received('tool:')).toBe('none');
  });
});

describe('a copy of a tool', () => {
  it('is visible to all clients afterwards, in addition to the original', async () => {
    await evaluate('copy:search>team-a');
    expect([await listed('team-a'), await listed('crm')]).toEqual([['search'], ['search', 'same']]);
    const { text } = await modernClient(evaluated.service.url('team-a')).call('tools/call', '{"name":"search"}');
    expect(text).toContain('done');
    expect((await evaluated.service.manage('GET', '/namespaces')).data).toContainEqual(
      expect.objectContaining({ name: 'team-a' }),
    );
  });

  it('is visible in its own run at once', async () => {
    expect(await received('copy:far>team-b+tools:team-b')).toBe('far/far of ops/made:far/made/team-b');
    expect(await received('copy:search>team-c+tool:search', 'later')).toContain('search/d/');
  });

  it('is made before the evaluated request is forwarded', async () => {
    await evaluated.service.register('namespaces', { name: 'assembled' });
    for (const client of [modernClient, legacyClient]) {
      const { call } = await client(evaluated.service.url('assembled'));
      const name = client === modernClient ? 'search' : 'same';
      await evaluated.apply(evaluator('gate', { llmOutput: `copy:${name}>assembled` }));
      const calls = upstream.count('tools/call');
      const { text } = await call('tools/call', `{"name":"${name}"}`);
      expect(text).toContain(name === 'search' ? 'done' : 'There is no host registered');
      expect(upstream.count('tools/call') - calls).toBe(name === 'search' ? 1 : 0);
    }
  });

  it('is durable before the request is forwarded', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-copies-'));
    const env = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: folder };
    const first = await startEvaluatedService(env);
    try {
      await first.service.register('forwards', { name: 'crm', address: upstream.url, namespace: 'crm' });
      await first.service.register('namespaces', { name: 'assembled' });
      await first.apply(evaluator('gate', { llmOutput: 'copy:search>assembled' }));
      const { text } = await modernClient(first.service.url('assembled')).call('tools/call', '{"name":"search"}');
      expect(text).toContain('done');
    } finally {
      await first.close();
    }
    const restarted = await startEvaluatedService(env);
    try {
      expect(namesIn(await modernClient(restarted.service.url('assembled')).call('tools/list'))).toEqual(['search']);
    } finally {
      await restarted.close();
      await rm(folder, { recursive: true });
    }
  }, 60_000);

  it('is in the list of the client whose request made it', async () => {
    for (const [namespace, client] of [
      ['listed-a', modernClient],
      ['listed-b', legacyClient],
    ] as const) {
      await evaluated.service.register('namespaces', { name: namespace });
      const { call } = await client(evaluated.service.url(namespace));
      await evaluated.apply(
        evaluator('copying', { method: 'tools/list', llmOutput: `copy:search>${namespace}+copy:far>${namespace}` }),
      );
      expect(namesIn(await call('tools/list'))).toEqual(['search', 'far']);
      await evaluated.apply(
        evaluator('choosing', { method: 'tools/list', llmOutput: `copy:same>${namespace}+filter:same,far` }),
      );
      expect(namesIn(await call('tools/list'))).toEqual(['far', 'same']);
    }
  });

  it('is visible to the following evaluators', async () => {
    await evaluated.apply(
      evaluator('copying', { method: 'vendor/asked', llmOutput: 'copy:far>team-d' }),
      evaluator('reading', { method: 'vendor/asked', llmOutput: 'tools:team-d' }),
    );
    const response = await modernClient(evaluated.service.url()).call('vendor/asked');
    expect(errorOf(response)).toMatchObject({ message: 'far/far of ops/made:far/made/team-d' });
  });

  it('is not made if the run fails', async () => {
    await evaluate('copy:search>team-e+trap');
    expect(lines()).toContainEqual(expect.objectContaining({ msg: 'evaluator failed' }));
    expect((await modernClient(evaluated.service.url('team-e')).call('tools/list')).status).toBe(404);
  });

  it('is made if the action then blocks: the run was successful', async () => {
    await evaluate('copy:search>team-f+block:no');
    expect(await listed('team-f')).toEqual(['search']);
  });

  it.each([
    ['search>Not_Valid', 'false'],
    ['search>', 'false'],
    ['nobody has this>team-g', 'false'],
    ['search>team-g', 'true'],
    ['search>crm', 'true'],
  ])('returns whether the tool and namespace are valid: %s', async (what, expected) => {
    await evaluate(`copy:${what}`);
    const request = () => lines().find(({ target }) => target === 'service::mcp::access');
    await expect.poll(request).toMatchObject({ metadata: { copied: expected } });
  });

  it('does not replace an existing tool, which is logged', async () => {
    await evaluate('copy:same>ops');
    expect(await received('tools:ops')).toContain('same/same of ops/made:same/made/ops');
    const notCopied = lines().filter(({ msg }) => String(msg).startsWith('tools not copied'));
    expect(notCopied).toMatchObject([
      { level: 'info', evaluator: 'gate', namespace: 'crm', target_namespace: 'ops', tools: ['same'] },
    ]);
  });

  it('is deleted with its forward', async () => {
    const own = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('passing')) } });
    await evaluated.service.register('forwards', { name: 'passing', address: own.url, namespace: 'crm' });
    await evaluate('copy:passing>team-h');
    expect(await listed('team-h')).toEqual(['passing']);
    expect((await evaluated.service.manage('DELETE', '/forwards/passing')).status).toBe(200);
    expect(await listed('team-h')).toEqual([]);
    await own.close();
  });
});

describe('the history', () => {
  it('has all messages of a conversation, oldest first', async () => {
    const headers = { 'x-conversation-id': 'talk' };
    const turns = Array.from({ length: 12 }, (_, at) => [
      {
        role: 'user',
        content: [{ type: 'text', text: `${at}\n` }, { type: 'image_url' }, { type: 'text', text: 'é' }],
      },
      { role: 'assistant', content: '' },
      { content: `${at}!` },
    ]);
    for (const messages of turns) await evaluated.record(messages, headers);
    const id = await evaluated.record([{ role: 'user', content: 'last' }], headers);
    const expected = [...turns.map((_, at) => `user=${at}\né unknown=${at}!`), 'user=last'].join(' ');
    expect(await received('history:talk')).toBe(expected);
    expect(await received(`history:${id}`)).toBe(expected);
    expect(await received('history:never heard of')).toBe('');
    expect(await received('history:')).toBe('');
  });
});

describe('the validation', () => {
  it('of a text uses the schema of the evaluator', async () => {
    // The LLM result is a command: it is invalid, and passed to the action all the same.
    const schema = { type: 'object', required: ['a', 'b'] };
    expect(await received('verify:{"a":1,"b":2}', 'crm', {}, schema)).toBe('ok {"a":1,"b":2}');
    expect(await received('verify:```\n{"a":1,"b":2}\n```', 'crm', {}, schema)).toBe('ok ```\n{"a":1,"b":2}\n```');
    expect(await received('verify:{}', 'crm', {}, schema)).toMatch(/^err .*'a'; .*'b'$/);
    expect(await received('verify:no JSON', 'crm', {}, schema)).toMatch(/^err ./);
  });

  it('without a schema accepts every text', async () => {
    expect(await received('verify:no JSON')).toBe('ok no JSON');
  });
});

describe('log lines', () => {
  it('have the name of the evaluator, and their level', async () => {
    await evaluate('log:grüß "dich"\n');
    const logged = lines().filter(({ from }) => from === 'action');
    expect(logged.map(({ level, target, msg, evaluator: name }) => [level, target, msg, name])).toEqual(
      ['info', 'warn', 'error'].map((level) => [level, 'service::evaluator', 'grüß "dich"\n', 'gate']),
    );
  });

  it.each([
    ['x'.repeat(4096), 4096],
    ['x'.repeat(4097), 4096],
    [`x${'😀'.repeat(2000)}`, 1 + 4 * 1023],
  ])('are truncated to 4096 bytes, between two characters', async (text, bytes) => {
    await evaluate(`log:${text}`);
    const [logged, ...others] = lines().filter(({ from }) => from === 'action');
    expect(others).toHaveLength(2);
    const message = String(logged?.msg);
    expect([Buffer.byteLength(message), text.startsWith(message)]).toEqual([bytes, true]);
  });

  it('are written before the decision, and also if the action traps', async () => {
    await evaluate('log:a');
    expect(
      lines()
        .filter(({ from, msg }) => from === 'action' || msg === 'evaluator decided')
        .map(({ msg }) => msg),
    ).toEqual(['a', 'a', 'a', 'evaluator decided']);
    await evaluate('log:b+trap');
    expect(lines().filter(({ msg }) => msg === 'b')).toHaveLength(3);
  });
});

test('an action sees a snapshot of the registry, and the next one a new snapshot', async () => {
  expect(await received('tools:moment')).toBe('');
  const tool = { name: 'new', description: 'd', uri: 'made:new', toolType: 'made', input_schema: { type: 'object' } };
  await evaluated.service.register('tools', { ...tool, namespace: 'moment' });
  expect(await received('tools:moment')).toBe('new/d/made:new/made/moment');
});
