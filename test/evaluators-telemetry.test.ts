import { beforeAll, describe, expect, it, test } from 'vitest';
import { sampleOf, samplesOf } from '../packages/server/testing/prometheus-text.ts';
import {
  API_KEY,
  type EvaluatedService,
  evaluator,
  MODEL,
  ownTool,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';
import { legacyClient, modernClient, type RawClient } from './fixtures/raw-client.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';

// Metrics and log lines of evaluators, and what they never contain.

const ARGUMENT = 'argument-that-nobody-tells';
const ANSWER = 'answer-that-nobody-tells';
const PROMPT = 'prompt-that-no-log-tells';

let evaluated: EvaluatedService;
let client: RawClient;
beforeAll(async () => {
  evaluated = await startEvaluatedService({ RUST_LOG: 'trace' });
  await evaluated.service.register('tools', ownTool('own'));
  client = await legacyClient(evaluated.service.url());
  return () => evaluated.close();
}, 120_000);

const sendRequest = (method: string, headers = {}) => client.call(method, `{"secret":"${ARGUMENT}"}`, headers);
const schema = { enum: ['fits'] };

describe('metrics of known traffic', () => {
  beforeAll(async () => {
    const { llm, apply } = evaluated;
    await apply(
      evaluator('one', { method: 'vendor/one', schema: { type: 'string' } }),
      evaluator('two', { method: 'vendor/two', on_error: 'block' }),
      evaluator('three', { method: 'vendor/two', on_error: 'continue', llmOutput: 'pass' }),
      evaluator('idle', { method: 'vendor/idle' }),
      evaluator('here', { method: 'vendor/one', namespace: 'nowhere' }),
    );
    // A command is not JSON: the first result is invalid, and so is the second.
    llm.script('no JSON', 'warn:x');
    await sendRequest('vendor/one');
    llm.script('no JSON', { status: 500 }); // The action is logged the first, which it does not understand.
    await sendRequest('vendor/one');
    for (const llmOutput of ['pass', 'none', 'block:x', 'reject:x', 'warn:x', 'filter:a', 'metadata:a=b', 'trap']) {
      llm.script(llmOutput);
      await sendRequest('vendor/two');
    }
    llm.script({ content: '' });
    await sendRequest('vendor/two');
    llm.script({ status: 500 });
    await sendRequest('vendor/two');
    await sendRequest('vendor/nobody');
    await client.call('ping');
    await apply(evaluator('fenced', { method: 'vendor/fenced', action: 'echo', schema }));
    llm.script('```\n"fits"\n```');
    await sendRequest('vendor/fenced');
    llm.script('"does not"', '"fits"');
    await sendRequest('vendor/fenced');
    await apply();
    await sendRequest('vendor/two');
  }, 60_000);

  const NONE = { pass: 0, block: 0, reject_malformed: 0, warn: 0, filter_tools: 0, set_metadata: 0 };
  const duration = (count: number) => ({ count, total_ms: expect.any(Number), avg_ms: expect.any(Number) });

  const LAST = {
    at: expect.any(String),
    message: expect.any(String),
    reason: expect.objectContaining({ kind: expect.any(String) }),
  };

  it('the counts of each evaluator are exact', async () => {
    const { evaluators } = await evaluated.metrics();
    expect(Object.keys(evaluators).sort()).toEqual(['fenced', 'one', 'three', 'two']);
    expect(evaluators.one).toEqual({
      decisions: { ...NONE, warn: 1 },
      llm: { calls_success: 3, calls_failure: 1, empty_results: 0, duration: duration(4) },
      schema: { validations_pass: 0, validations_fail: 3, retries_success: 0, retries_failure: 2 },
      wasm: { executions: 2, not_found: 0, duration: duration(2) },
      pipeline_duration: duration(2),
      failures: { llm_failure: 0, action_failure: 1, busy: 0, consecutive: 1, last: LAST },
    });
    expect(evaluators.two).toEqual({
      // A tool filter for another request counts as a pass, as does no response.
      decisions: { ...NONE, pass: 3, block: 1, reject_malformed: 1, warn: 1, set_metadata: 1 },
      llm: { calls_success: 9, calls_failure: 1, empty_results: 1, duration: duration(10) },
      schema: { validations_pass: 0, validations_fail: 0, retries_success: 0, retries_failure: 0 },
      wasm: { executions: 9, not_found: 0, duration: duration(9) },
      pipeline_duration: duration(10),
      failures: { llm_failure: 1, action_failure: 2, busy: 0, consecutive: expect.any(Number), last: LAST },
    });
    expect(evaluators.three).toMatchObject({ decisions: { ...NONE, pass: 5 }, llm: { calls_success: 5 } });
    expect(evaluators.fenced).toMatchObject({
      decisions: { ...NONE, block: 2 },
      schema: { validations_pass: 2, validations_fail: 1, retries_success: 1, retries_failure: 0 },
    });
  });

  it('durations are those of the parts', async () => {
    const { evaluators } = await evaluated.metrics();
    const { llm, wasm, pipeline_duration: all } = evaluators.two ?? {};
    expect(llm?.duration.total_ms).toBeGreaterThan(0);
    expect(wasm?.duration.total_ms).toBeGreaterThan(0);
    expect(all?.total_ms).toBeGreaterThanOrEqual((llm?.duration.total_ms ?? 0) + (wasm?.duration.total_ms ?? 0) - 1);
  });

  it('triggers are counted by evaluator, and skipped evaluations by request', async () => {
    const { pipeline, gauges } = await evaluated.metrics();
    expect(pipeline).toEqual({
      // Two for one, ten for two and for three, two for fenced.
      trigger_matches: 2 + 20 + 2,
      // Of five: four at `one`, three at `two`, five for unmatched requests and the ping.
      trigger_misses: 2 * 4 + 10 * 3 + 2 * 5,
      // initialize and its notification.
      skipped_no_method: 1,
      skipped_no_state: 2,
      skipped_no_match: 2,
      skipped_no_registry: 0,
      skipped_no_interactions: 0,
    });
    expect(gauges).toEqual({ evaluators_loaded: 0, evaluators_skipped: 0, wasm_compiled: 0, namespace_bindings: 0 });
  });

  it('Prometheus exposes the same counts', async () => {
    const response = await fetch(`${evaluated.service.management}/metrics`, { headers: { connection: 'close' } });
    const samples = samplesOf(await response.text());
    const of = (name: string, sluice_evaluator: string, labels = {}) =>
      sampleOf(samples, `sluice_evaluator_${name}`, { sluice_evaluator, ...labels });
    const decisions = (name: string) =>
      Object.keys(NONE).map((decision) => of('decisions_total', name, { sluice_evaluator_decision: decision }));
    expect([decisions('one'), decisions('two')]).toEqual([
      [0, 0, 0, 1, 0, 0],
      [3, 1, 1, 1, 0, 1],
    ]);
    const failures = ['one', 'two', 'three'].map((name) =>
      ['llm_failure', 'action_failure'].map((error_type) => of('failures_total', name, { error_type })),
    );
    expect(failures).toEqual([
      [0, 1],
      [1, 2],
      [0, 0],
    ]);
    const calls = ['success', 'failure'].map((outcome) =>
      of('llm_calls_total', 'two', { sluice_evaluator_llm_outcome: outcome }),
    );
    expect([calls, of('action_runs_total', 'two')]).toEqual([[9, 1], 9]);
    const { llm, wasm } = (await evaluated.metrics()).evaluators.two ?? {};
    expect(of('llm_duration_seconds_total', 'two')).toBeCloseTo((llm?.duration.total_ms ?? 0) / 1000, 6);
    expect(of('action_duration_seconds_total', 'two')).toBeCloseTo((wasm?.duration.total_ms ?? 0) / 1000, 6);
  });

  it('the gauges show loaded evaluators', async () => {
    await evaluated.apply(evaluator('a'), evaluator('b'), evaluator('c', { action: 'echo' }));
    await evaluated.service.manage('PUT', '/evaluators/namespaces/default', { conversation_id: 'x' });
    const gauges = { evaluators_loaded: 3, evaluators_skipped: 0, wasm_compiled: 2, namespace_bindings: 1 };
    expect((await evaluated.metrics()).gauges).toEqual(gauges);
    await evaluated.service.manage('DELETE', '/evaluators/namespaces/default');
  });
});

describe('the log', () => {
  it.each([
    ['pass', 'pass'],
    ['none', 'pass'],
    ['block:x', 'block'],
    ['reject:x', 'reject_malformed'],
    ['warn:x', 'warn'],
    ['metadata:a=b', 'set_metadata'],
  ])('has a line for each decision: %s', async (llmOutput, decision) => {
    await evaluated.apply(evaluator('gate', { llmOutput }));
    const before = evaluated.lines('evaluator decided').length;
    const headers = { 'x-request-id': 'request-1', 'x-conversation-id': 'talk-1' };
    await client.call('tools/call', '{"name":"own"}', headers);
    const [line, ...others] = evaluated.lines('evaluator decided').slice(before);
    expect(others).toEqual([]);
    expect(line).toEqual({
      ts: expect.any(String),
      level: 'info',
      target: 'service::evaluator',
      msg: 'evaluator decided',
      evaluator: 'gate',
      decision,
      llm_ms: expect.any(Number),
      action_ms: expect.any(Number),
      namespace: 'default',
      mcp_method: 'tools/call',
      tool: 'own',
      conversation_id: 'talk-1',
      x_request_id: 'request-1',
    });
  });

  it('has a line for a filtered tool list', async () => {
    await evaluated.apply(evaluator('gate', { method: 'tools/list', llmOutput: 'filter:a,b' }));
    await client.call('tools/list');
    expect(evaluated.lines('evaluator decided').at(-1)).toMatchObject({ decision: 'filter_tools' });
  });

  it('has a line for each failure, with its reason', async () => {
    await evaluated.apply(evaluator('gate', { connection: 'nobody', on_error: 'block' }));
    await client.call('tools/call', '{"name":"own"}');
    const line = evaluated.lines('evaluator failed').at(-1);
    expect(line).toMatchObject({
      level: 'warn',
      evaluator: 'gate',
      decision: 'llm_failure',
      fault: 'network',
      on_error: 'block',
      llm_ms: expect.any(Number),
    });
    expect(line).not.toHaveProperty('action_ms');
    expect(String(parseObject(line?.error).message)).toContain('nobody');
  });
});

describe('no output contains', () => {
  let everything: readonly string[];
  /** Returns the outputs that contain it. */
  const linesWith = (text: string) => everything.filter((each) => each.includes(text));
  const SECRETS = [API_KEY, MODEL];
  beforeAll(async () => {
    const { service, llm, apply } = evaluated;
    const seen: string[] = [];
    const outcomes: readonly (readonly [string, Parameters<typeof evaluator>[1]])[] = [
      ['passes', { llmOutput: `pass` }],
      ['is empty', { llmOutput: ' ' }],
      ['fails', { connection: 'nobody', on_error: 'block' }],
      ['fails quietly', { connection: 'nobody' }],
      ['traps', { llmOutput: `trap`, on_error: 'block' }],
      ['does not fit', { llmOutput: `pass`, schema }],
    ];
    for (const [name, parts] of outcomes) {
      await apply(evaluator(name, { method: 'vendor/asked', ...parts }));
      for (const make of [modernClient, legacyClient]) {
        const { call } = await make(service.url());
        seen.push((await call('vendor/asked', `{"secret":"${ARGUMENT}"}`)).text);
      }
    }
    // Responses that repeat the key, as some servers do when they reject it.
    await apply(evaluator('judge', { method: 'vendor/asked', llmOutput: PROMPT, on_error: 'block' }));
    for (const script of [
      { status: 401, body: `{"error":"no such key: ${API_KEY} ${ANSWER}"}` },
      { body: `no JSON: ${API_KEY} ${ANSWER}` },
      { content: ANSWER },
      { status: 307, headers: { location: `/${API_KEY}/${ANSWER}` } },
      { stopsIn: 'head', hangsUp: true } as const,
    ]) {
      llm.script(script);
      seen.push((await client.call('vendor/asked', `{"secret":"${ARGUMENT}"}`)).text);
    }
    const rejected = [
      { evaluators: [evaluator('x', { llmOutput: 'y' })], expected_revision: 1 },
      { evaluators: [{ ...evaluator('x'), llm: { operation: 'classify', prompt: 'p', connection: 'nowhere' } }] },
      { evaluators: [{ ...evaluator('x'), processor: { path: 'service.json' } }] },
    ];
    const api = async (method: string, path: string, body?: unknown) => {
      const response = await fetch(`${service.management}${path}`, {
        method,
        headers: { connection: 'close' },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      seen.push(JSON.stringify([...response.headers]), await response.text());
    };
    for (const body of rejected) await api('PUT', '/api/v1/evaluators', body);
    await apply(evaluator('last', { llmOutput: PROMPT }));
    for (const path of ['', '/llm-connections', '/namespaces', '/revisions', '/revisions/active', '/revisions/5']) {
      await api('GET', `/api/v1/evaluators${path}`);
    }
    for (const path of ['/api/v1/metrics', '/metrics', '/openapi.json', '/api/v1/tool-calls', '/api/v1/interactions']) {
      await api('GET', path);
    }
    everything = [...seen, ...service.log];
  }, 60_000);

  it.each(SECRETS)('the settings of a connection: %s', (secret) => {
    expect(evaluated.llm.requests.map(({ headers, text }) => `${headers.authorization} ${text}`).join()).toContain(
      secret,
    );
    expect(linesWith(secret)).toEqual([]);
    expect(linesWith(new URL(evaluated.llm.url).host)).toEqual([]);
  });

  it('the arguments of a request, and the LLM results', () => {
    const requested = evaluated.llm.requests.map(({ text }) => text).join();
    expect(requested).toContain(ARGUMENT);
    // The reason of an action is logged with the request: its author decides what it discloses.
    const undisclosed = (text: string) =>
      linesWith(text).filter((line) => !/"evaluator":"fenced","reason":/.test(line));
    expect([undisclosed(ARGUMENT), undisclosed(ANSWER)]).toEqual([[], []]);
  });

  it('the prompt of an evaluator (in the log)', () => {
    expect(evaluated.service.log.filter((line) => line.includes(PROMPT))).toEqual([]);
    expect(linesWith(PROMPT)).not.toEqual([]);
  });
});

test('metadata is logged at level debug only', async () => {
  const own = await startEvaluatedService({ RUST_LOG: 'info' });
  try {
    await own.apply(evaluator('gate', { method: 'tools/list', llmOutput: 'metadata:tier=gold' }));
    await (await legacyClient(own.service.url())).call('tools/list');
    const logged = () => own.service.log.map(parseObject).filter(({ mcp_method }) => mcp_method === 'tools/list');
    await expect.poll(() => logged().map(({ msg }) => msg)).toEqual(['evaluator decided', 'request']);
    expect(own.service.log.join('')).not.toContain('gold');
  } finally {
    await own.close();
  }
});
