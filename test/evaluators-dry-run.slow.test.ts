import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type DryRunResult, dryRunResult } from '@sluice/contract';
import { beforeAll, describe, expect, it, test } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import {
  type EvaluatedService,
  type EvaluatorParts,
  evaluator,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';

// Dry runs of evaluators that are not active.

let evaluated: EvaluatedService;
beforeAll(async () => {
  evaluated = await startEvaluatedService();
  const tool = { description: 'Weather', uri: 'http://127.0.0.1:9/mcp', toolType: 'custom', input_schema: {} };
  await evaluated.service.register('tools', { ...tool, name: 'weather' });
  return () => evaluated.close();
}, 120_000);

const CALL = { method: 'tools/call', params: { name: 'weather', arguments: { city: 'Bern' } } };

const send = (parts: EvaluatorParts, more: object = {}, request: object = CALL) =>
  evaluated.service.manage('POST', '/evaluators/dry-run', { evaluator: evaluator('trial', parts), request, ...more });

async function dryRun(parts: EvaluatorParts, more?: object, request?: object): Promise<DryRunResult> {
  const { status, data } = await send(parts, more, request);
  expect(status).toBe(200);
  return dryRunResult.parse(data);
}

describe('a dry run with an answer', () => {
  it('shows the verdict, the prompt, times and memory without calling the model', async () => {
    const before = evaluated.llm.requests.length;
    const result = await dryRun({}, { answer: 'block:not in Bern' });
    expect(result).toMatchObject({
      verdict: 'block',
      rejected: true,
      matches: true,
      reason: 'not in Bern',
      error: { code: -32001, message: 'not in Bern', data: { evaluator: 'trial', kind: 'block' } },
      prompt: '# Request\nmethod: tools/call\nnamespace: default\ntool: weather\narguments:\n  city: Bern',
      llm: { answer: 'block:not in Bern', calls: 0 },
      log: [],
      copies: [],
    });
    expect(result.action?.duration_ms).toBeGreaterThan(0);
    expect(result.action?.memory_bytes ?? 1).toBeGreaterThan(0);
    expect(evaluated.llm.requests.length).toBe(before);
  });

  it.each([
    ['pass', { verdict: 'pass', rejected: false }],
    ['none', { verdict: 'pass', rejected: false }],
    ['warn:mind the gap', { verdict: 'warn', rejected: false, reason: 'mind the gap' }],
    ['reject:no city', { verdict: 'reject_malformed', rejected: true, error: { code: -32002 } }],
    ['metadata:a=b', { verdict: 'set_metadata', metadata: { a: 'b' } }],
    ['filter:a', { verdict: 'pass', rejected: false }],
    ['log:hello', { verdict: 'pass', log: ['info', 'warn', 'error'].map((level) => ({ level, message: 'hello' })) }],
  ])('%s has the verdict of the action', async (answer, expected) => {
    expect(await dryRun({}, { answer })).toMatchObject(expected);
  });

  it('shows the tools of a filtered list', async () => {
    const parts = { method: 'tools/list' };
    const result = await dryRun(parts, { answer: 'filter:weather' }, { method: 'tools/list' });
    expect(result).toMatchObject({ verdict: 'filter_tools', tools: ['weather'], matches: true });
    expect(result.prompt).toContain('# Available tools\n- weather: Weather');
  });

  it('shows copies, but does not make them', async () => {
    const result = await dryRun({}, { answer: 'copy:weather>new' });
    expect(result.copies).toEqual([{ tool: 'weather', namespace: 'new' }]);
    expect(await evaluated.service.manage('GET', '/namespaces/new')).toMatchObject({ status: 404 });
  });

  it('shows why the answer does not match the schema', async () => {
    const result = await dryRun({ schema: { type: 'object' } }, { answer: 'pass' });
    expect(result).toMatchObject({ verdict: 'pass', llm: { schema_error: expect.stringContaining('JSON') } });
  });

  it.each([
    ['continue', false],
    ['block', true],
  ] as const)('shows the failure of an action with on_error %s', async (on_error, rejected) => {
    const result = await dryRun({ on_error }, { answer: 'trap' });
    expect(result).toMatchObject({ verdict: 'action_failure', rejected, action: { fault: 'trap' } });
    expect(result.error?.code).toBe(rejected ? -32603 : undefined);
  });

  it.each([
    [{ namespace: 'finance' }, {}, false],
    [{ namespace: 'finance' }, { namespace: 'finance' }, true],
    [{ method: 'tools/list' }, {}, false],
  ])('of a trigger %j with a request %j shows whether they match', async (parts, request, matches) => {
    expect((await dryRun(parts, { answer: 'pass' }, { ...CALL, ...request })).matches).toBe(matches);
  });
});

describe('a dry run without an answer', () => {
  it('calls the model', async () => {
    const result = await dryRun({ llmOutput: 'block:by the model' });
    expect(result).toMatchObject({ verdict: 'block', llm: { answer: 'block:by the model', calls: 1 } });
  });

  it('includes the history of the conversation', async () => {
    await evaluated.record([{ role: 'user', content: 'What about Bern?' }], { 'x-conversation-id': 'c-dry' });
    const result = await dryRun({}, {}, { ...CALL, conversation_id: 'c-dry' });
    expect(result.prompt).toMatch(/^# Conversation\n\[user\]: What about Bern\?/);
  });

  it('shows the failure of the model', async () => {
    const result = await dryRun({ connection: 'nobody', on_error: 'block' });
    expect(result).toMatchObject({ verdict: 'llm_failure', rejected: true, error: { code: -32603 } });
    expect(result.action).toBeUndefined();
  });
});

test('a dry run is counted in no metric, revision, event or log line', async () => {
  const state = async () => {
    const { evaluators, pipeline } = await evaluated.metrics();
    const revisions = await evaluated.service.manage('GET', '/evaluators/revisions');
    const calls = await evaluated.service.manage('GET', '/tool-calls');
    return [evaluators, pipeline, revisions.data, calls.data, evaluated.lines()];
  };
  const before = await state();
  await dryRun({}, { answer: 'block:no' });
  await dryRun({ on_error: 'block' }, { answer: 'trap' });
  expect(await state()).toEqual(before);
});

test('the command line runs a dry run of an active evaluator, and of one in a file', async () => {
  await evaluated.apply(evaluator('guard', { namespace: 'default' }));
  const terminal = scriptedTerminal({ cwd: evaluated.folder });
  const sluice = (...argv: string[]) => run(['--host', evaluated.service.management, '--no-auth', ...argv], terminal);
  const dry = ['evaluators', 'dry-run', 'guard', '--tool', 'weather', '-p', 'city=Bern'];
  expect(await sluice(...dry, '--answer', 'block:no')).toBe(0);
  expect(terminal.out()).toMatch(/^verdict: +block\nrejected: +true\ntrigger matches: +true\nreason: +no\n/);
  await writeFile(join(evaluated.folder, 'trial.json'), JSON.stringify([evaluator('guard')]));
  expect(await sluice(...dry, '-f', 'trial.json', '--answer', 'warn:careful', '-o', 'json')).toBe(0);
  expect(terminal.out()).toContain('"verdict": "warn"');
  expect(await sluice('evaluators', 'dry-run', 'none')).toBe(1);
  expect(terminal.err()).toContain('no evaluator "none" in the active evaluators');
  await evaluated.apply();
});

test('one dry run runs at a time', async () => {
  const both = await Promise.all([send({}, { answer: 'pass' }), send({}, { answer: 'pass' })]);
  expect(both.map(({ status }) => status).sort()).toEqual([200, 503]);
  expect((await send({}, { answer: 'pass' })).status).toBe(200);
});

test.for([
  [
    'an unknown connection',
    { ...evaluator('a'), llm: { operation: 'classify', prompt: '', connection: 'x' } },
    CALL,
    422,
  ],
  ['a missing action', { ...evaluator('a'), processor: { path: 'none.wasm' } }, CALL, 422],
  [
    'an inline model',
    { ...evaluator('a'), llm: { operation: 'classify', prompt: '', connection: 'judge', model: 'm' } },
    CALL,
    400,
  ],
  ['no method', evaluator('a'), { method: '' }, 400],
  [
    'too deep parameters',
    evaluator('a'),
    { ...CALL, params: JSON.parse(`${'{"a":'.repeat(200)}1${'}'.repeat(200)}`) },
    400,
  ],
  ['an invalid namespace', evaluator('a'), { ...CALL, namespace: 'Finance' }, 400],
] as const)('%s is rejected', async ([_what, tried, request, status]) => {
  const body = { evaluator: tried, request, answer: 'pass' };
  expect((await evaluated.service.manage('POST', '/evaluators/dry-run', body)).status).toBe(status);
});
