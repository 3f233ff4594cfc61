import { beforeAll, beforeEach, describe, expect, it, test } from 'vitest';
import {
  type EvaluatedService,
  echoOf,
  errorOf,
  evaluator,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';
import { legacyClient, modernClient, type RawClient, reply } from './fixtures/raw-client.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

// Outcomes of actions.

let evaluated: EvaluatedService;
let upstream: RawUpstream;
beforeAll(async () => {
  [evaluated, upstream] = await Promise.all([
    startEvaluatedService({ RUST_LOG: 'debug' }),
    startRawUpstream({ scripts: { 'tools/list': toolList(toolText('a')), 'tools/call': textResultText('done') } }),
  ]);
  await evaluated.service.register('forwards', { name: 'crm', address: upstream.url });
  return async () => {
    await evaluated.close();
    await upstream.close();
  };
}, 120_000);

/** Log lines since the start of the test. */
let before: number;
beforeEach(() => {
  before = evaluated.service.log.length;
});
const lines = () => evaluated.service.log.slice(before).map(parseObject);
const linesOf = (msg: string) => lines().filter((line) => line.msg === msg);
/** Metadata of the request in the access log. */
const metadata = async () => {
  await expect.poll(() => linesOf('request').filter(({ target }) => target === 'service::mcp::access')).toHaveLength(1);
  return linesOf('request').find(({ target }) => target === 'service::mcp::access')?.metadata;
};

describe.each(['legacy', 'modern'] as const)('of a %s client', (era) => {
  let client: RawClient;
  beforeAll(async () => {
    client = era === 'legacy' ? await legacyClient(evaluated.service.url()) : modernClient(evaluated.service.url());
  });
  const call = () => client.call('tools/call', '{"name":"a","arguments":{"x":"y"}}');
  /** Calls the tool with one evaluator per command. */
  async function evaluate(...llmOutput: string[]) {
    await evaluated.apply(
      ...llmOutput.map((each, at) => evaluator(`gate-${at}`, { llmOutput: each, on_error: 'block' })),
    );
    const calls = upstream.count('tools/call');
    const response = await call();
    return { ...response, error: errorOf(response), forwarded: upstream.count('tools/call') - calls };
  }

  it.each([
    ['pass', 'pass'],
    ['no response', 'none'],
    ['a warning', 'warn:mind'],
    ['metadata', 'metadata:a=b'],
    ['a choice of tools, which this is no list of', 'filter:a'],
    ['an answer that the action does nothing about', 'log:x'],
  ])('a request is forwarded after %s', async (_which, llmOutput) => {
    const { text, forwarded } = await evaluate(llmOutput);
    expect([text, forwarded]).toEqual([expect.stringContaining('done'), 1]);
  });

  it.each([
    ['block', -32001, 'block'],
    ['reject', -32002, 'reject_malformed'],
  ])('%s rejects it with the unchanged reason', async (command, code, kind) => {
    for (const reason of ['', 'Nö: "not" {like} this\n\t\u0000😀', 'r'.repeat(20_000)]) {
      const { status, error, forwarded } = await evaluate(`${command}:${reason}`, 'pass');
      expect(error).toEqual({ code, message: reason, data: { evaluator: 'gate-0', kind } });
      expect([status, forwarded]).toEqual([200, 0]);
    }
    const { length } = evaluated.llm.requests;
    await evaluate(`${command}:no`, 'pass');
    expect(evaluated.llm.requests.length - length).toBe(1);
  });

  it.each([
    ['block:first+pass', { code: -32001, message: 'first' }],
    ['block:first+reject:second+warn:third', { code: -32001, message: 'first' }],
    ['reject:first+block:second', { code: -32002, message: 'first' }],
    ['pass+block:second', { code: -32001, message: 'second' }],
    ['warn:first+metadata:k=v+reject:third', { code: -32002, message: 'third' }],
  ])('block and reject-malformed are final; of other responses the last counts: %s', async (llmOutput, expected) => {
    const { error, forwarded } = await evaluate(llmOutput);
    expect([error, forwarded]).toEqual([expect.objectContaining(expected), 0]);
    const ignored = llmOutput.split('+').length - 1;
    expect(linesOf('action responded more than once')).toMatchObject([{ evaluator: 'gate-0', ignored }]);
  });

  it('the last of several responses without a rejection counts', async () => {
    const { forwarded } = await evaluate('metadata:first=1+warn:second', 'warn:first+metadata:second=2', 'warn:x+pass');
    expect(forwarded).toBe(1);
    expect(await metadata()).toEqual({ 'service.evaluator.gate-0.warning': 'second', second: '2' });
    expect(linesOf('action responded more than once')).toHaveLength(3);
  });

  it('a warning is logged and set as metadata', async () => {
    await evaluate('warn:mind the\ngap', 'warn:and the step');
    const warned = linesOf('action warning');
    expect(warned).toMatchObject([
      { level: 'warn', target: 'service::evaluator', evaluator: 'gate-0', message: 'mind the\ngap' },
      { level: 'warn', evaluator: 'gate-1', message: 'and the step' },
    ]);
    expect(await metadata()).toEqual({
      'service.evaluator.gate-0.warning': 'mind the\ngap',
      'service.evaluator.gate-1.warning': 'and the step',
    });
  });

  it('metadata accumulates; a later value of a key replaces an earlier one', async () => {
    await evaluate('metadata:tier=gold', 'metadata:note=a=b', 'metadata:tier=', 'metadata:größe=😀');
    expect(await metadata()).toEqual({ tier: '', note: 'a=b', größe: '😀' });
    expect(linesOf('action metadata ignored')).toEqual([]);
    expect(JSON.stringify(upstream.seen.at(-1))).not.toMatch(/gold|größe/);
  });

  it('reserved or oversized metadata is ignored and logged without its value', async () => {
    const long = { key: 'k'.repeat(64), value: 'v'.repeat(256) };
    await evaluate(
      `metadata:${long.key}=${long.value}`,
      'metadata:mcp.method=of-the-action',
      'metadata:service.namespace=of-the-action',
      'metadata:service.evaluator.gate-0.warning=of-the-action',
      `metadata:${long.key}k=of-the-action`,
      `metadata:${'é'.repeat(33)}=of-the-action`,
      `metadata:too-long=of-the-action${'v'.repeat(256)}`,
      `metadata:too-wide=of-the-action${'😀'.repeat(61)}`,
      'metadata:mcpx=fine',
    );
    expect(await metadata()).toEqual({ [long.key]: long.value, mcpx: 'fine' });
    const ignored = linesOf('action metadata ignored');
    expect(ignored.map(({ level, evaluator }) => [level, evaluator])).toEqual(
      Array.from({ length: 7 }, (_, at) => ['warn', `gate-${at + 1}`]),
    );
    expect(JSON.stringify(ignored)).not.toContain('of-the-action');
  });

  it('evaluators run in the order of the list until one rejects', async () => {
    const { length } = evaluated.llm.requests;
    const { error } = await evaluate('pass', 'warn:x', 'none', 'block:enough', 'block:too late');
    expect(error).toMatchObject({ message: 'enough', data: { evaluator: 'gate-3' } });
    const requested = evaluated.llm.requests.slice(length).map(({ messages: [system] }) => system?.content);
    expect(requested).toEqual(['pass', 'warn:x', 'none', 'block:enough']);
  });
});

describe.each(['continue', 'block', undefined] as const)('an action that fails, with on_error %s', (on_error) => {
  const parts = { method: 'vendor/asked', ...(on_error && { on_error }) };
  const sendRequest = () => modernClient(evaluated.service.url()).call('vendor/asked');
  const FAILED = {
    code: -32603,
    message: 'evaluator processor execution failed',
    data: { evaluator: 'gate', kind: 'action_failure' },
  };

  it.each([
    ['traps', 'ordinary', 'trap', 'trap'],
    ['traps after it has blocked', 'ordinary', 'block:first+trap', 'trap'],
    ['traps after it has rejected', 'ordinary', 'reject:first+trap', 'trap'],
    ['does not know what to do', 'ordinary', 'no such command', 'trap'],
    ['takes more than 1000 ms', 'echo', 'never ends', 'timeout'],
    ['takes more than 64 MiB', 'echo', 'takes all memory', expect.stringMatching(/^(memory|trap|timeout)$/)],
  ] as const)('because it %s', async (_which, action, llmOutput, fault) => {
    await evaluated.apply(
      evaluator('gate', { ...parts, action, llmOutput }),
      evaluator('next', { method: 'vendor/asked', action: 'echo', llmOutput: 'x' }),
    );
    const response = await sendRequest();
    if (on_error === 'block') expect([response.status, errorOf(response)]).toEqual([200, FAILED]);
    else expect(echoOf(response)).toMatchObject({ llmResult: 'x' });
    const failed = linesOf('evaluator failed');
    expect(failed).toMatchObject([{ level: 'warn', evaluator: 'gate', decision: 'action_failure', fault }]);
    expect(failed[0]).toMatchObject({ on_error: on_error ?? 'continue', llm_ms: expect.any(Number) });
    expect(failed[0]).toMatchObject({ action_ms: expect.any(Number) });
  });

  it('sets no metadata and logs no warning', async () => {
    await evaluated.apply(
      evaluator('gate', { ...parts, llmOutput: 'metadata:a=b+trap' }),
      evaluator('other', { ...parts, llmOutput: 'warn:x+trap' }),
    );
    await sendRequest();
    expect(await metadata()).toBeUndefined();
    expect(linesOf('action warning')).toEqual([]);
  });
});

test('the response has the id of the request, and an error of code, message and data', async () => {
  await evaluated.apply(evaluator('gate', { llmOutput: 'block:no' }));
  const response = await modernClient(evaluated.service.url()).call('tools/call', '{"name":"a"}');
  const error = '{"code":-32001,"message":"no","data":{"evaluator":"gate","kind":"block"}}';
  expect(JSON.parse(reply(response))).toEqual({ jsonrpc: '2.0', id: 1, error: JSON.parse(error) });
});
