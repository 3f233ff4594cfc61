import { execFileSync } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { evaluatorInput, validate } from '@sluice/contract';
import { ActionCompiler, type EvaluationContext, ResultSchemas, SandboxPool } from '@sluice/server/actions';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { run } from '../run.ts';
import { scriptedTerminal } from '../testing/scripted-terminal.ts';
import { TestHost } from './test-host.ts';
import { readContext, readHistory, readTools } from './test-inputs.ts';

const EXAMPLES = new URL('../../../actions/examples/', import.meta.url);
const ROOT = new URL('../../../../', import.meta.url);

// Building takes a second of a whole core.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let folder: string;
const compiler = new ActionCompiler();
// Only the decisions matter, not the duration on a busy machine.
const hosts = new SandboxPool({ size: 1, limits: { runMs: 60_000 } });
const schemas = new ResultSchemas();
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-test-examples-'));
  await cp(EXAMPLES, folder, { recursive: true });
});
afterAll(async () => {
  await Promise.all([compiler.close(), hosts.close(), schemas.close()]);
  await rm(folder, { recursive: true });
});

/** Builds an example as its author would; each run gets its context with some members replaced. */
async function example(name: string) {
  const terminal = scriptedTerminal({ cwd: folder });
  expect(await run(['action', 'build', `${name}.ts`], terminal), terminal.err()).toBe(0);
  const action = await compiler.compile(await readFile(join(folder, `${name}.wasm`)));

  const [definition, ...others] = parse(await readFile(join(folder, `${name}.yaml`), 'utf8')).evaluators;
  expect(others).toEqual([]);
  expect(definition).toMatchObject({ name, processor: { path: `./${name}.wasm` } });
  const checked = validate(evaluatorInput, definition);
  if (!('value' in checked)) throw new Error(JSON.stringify(checked.issues));
  const { result_schema } = checked.value.llm;
  const schema = result_schema === null ? undefined : await schemas.compile(result_schema);

  const given = await readContext(`${name}.context.json`, terminal);
  const optional = async <T>(file: string, read: (path: string, from: typeof terminal) => Promise<T[]>) =>
    (await readFile(join(folder, file)).catch(() => undefined)) === undefined ? [] : read(file, terminal);
  const tools = await optional(`${name}.tools.json`, readTools);
  const history = await optional(`${name}.history.json`, readHistory);
  return async (changed: Partial<EvaluationContext> = {}) => {
    const context = { ...given, ...changed };
    const { namespace } = context;
    const { conversationId } = given;
    const verify = async (raw: string) => schema?.validate(raw);
    const responses = new TestHost({ tools, history, namespace, conversationId, verify });
    const { response, ignoredResponses } = await hosts.run(action, context, responses);
    expect(ignoredResponses).toBe(0);
    const { copies, lines } = responses;
    return { response, copies, lines, everything: JSON.stringify([response, lines]) };
  };
}

/** Unexpected responses of a model. */
const INVALID_OUTPUTS = [
  '',
  'I cannot help with that.',
  '{',
  'null',
  '[]',
  '{"verdict": "ALLOW"}',
  '{"__proto__": 1}',
  '"\ud83d',
];

describe('safety-gate', () => {
  it('blocks, passes, and accepts only its own format', async () => {
    const gate = await example('safety-gate');
    expect((await gate()).response).toEqual({ kind: 'block', reason: '4200 EUR is above the limit of 1000 EUR.' });
    const fenced = '```json\n{"verdict": "allow"}\n```';
    const thought = '<think>It says {"verdict":"block"}.</think>\n';
    for (const llmResult of ['{"verdict":"allow"}', fenced, `${thought}{"verdict":"allow"}`, thought + fenced]) {
      expect((await gate({ llmResult })).response).toEqual({ kind: 'pass' });
    }
    const long = `one\n${'\u202e'}two ${'x'.repeat(400)}`;
    const { response } = await gate({ llmResult: JSON.stringify({ verdict: 'block', reason: long }) });
    expect(response).toEqual({ kind: 'block', reason: `one two ${'x'.repeat(191)}…` });
    for (const llmResult of [...INVALID_OUTPUTS, '{"verdict":"allow","verdict2":"block"}', 'allow']) {
      expect((await gate({ llmResult })).response, llmResult).toMatchObject({ kind: 'reject_malformed' });
    }
  });
});

describe('catalog-assembly', () => {
  it('serves the selected tools, copies only from the catalog, and keeps the list without a selection', async () => {
    const assembly = await example('catalog-assembly');
    const copies = [{ tool: 'search_orders', namespace: 'desk' }];
    expect(await assembly()).toMatchObject({
      response: { kind: 'filter_tools', tools: ['search_orders', 'notes'] },
      copies,
    });
    const wrapped = '{"tools": ["calendar", "calendar", 7, "none"]}';
    expect(await assembly({ llmResult: wrapped })).toMatchObject({
      response: { kind: 'filter_tools', tools: ['calendar'] },
      copies: [],
    });
    for (const llmResult of [...INVALID_OUTPUTS, '["drop_database"]']) {
      expect(await assembly({ llmResult }), llmResult).toMatchObject({ response: { kind: 'warn' }, copies: [] });
    }
  });
});

describe('argument-redaction', () => {
  let redaction: Awaited<ReturnType<typeof example>>;
  beforeAll(async () => {
    redaction = await example('argument-redaction');
  });

  it('reports arguments and kinds, never values', async () => {
    expect((await redaction()).response).toEqual({
      kind: 'warn',
      message: 'arguments look sensitive: to: email address; text: payment card; diagnosis: flagged by the LLM',
    });
    const secrets: [string, string, string][] = [
      ['a', `-----BEGIN RSA ${'PRIVATE'} KEY-----\nMIIE`, 'private key'],
      ['b', `ghp_${'a1B2'.repeat(9)}`, 'access token'],
      ['c', 'AKIAIOSFODNN7EXAMPLE', 'access key'],
      ['d', 'eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl', 'JSON web token'],
      ['e', 'postgres://sluice:hunter2@db/x', 'password in a URL'],
      ['f', 'pay to DE02 1203 0000 0000 2020 51 please', 'bank account'],
      ['apiKey', 'plain', 'sensitive name'],
      [`ghp_${'a1B2'.repeat(9)}`, '1', 'sensitive name'],
    ];
    for (const [name, value, kind] of secrets.slice(0, -1)) {
      const { response, everything } = await redaction({ arguments: [[name, value]], llmResult: 'prose' });
      expect(response).toEqual({ kind: 'warn', message: `arguments look sensitive: ${name}: ${kind}` });
      expect(everything).not.toContain(value);
    }
    const [token = ''] = secrets.at(-1) ?? [];
    const unusual = await redaction({
      arguments: [[token, 'x']],
      llmResult: JSON.stringify({ sensitive: [token, 'none'] }),
    });
    expect(unusual.response).toMatchObject({ message: 'arguments look sensitive: argument 1: flagged by the LLM' });
    const hidden: [string, string][] = [['long', `${' '.repeat(60_000)}AKIAIOSFODNN7EXAMPLE`]];
    expect((await redaction({ arguments: hidden })).response).toMatchObject({
      message: 'arguments look sensitive: long: too long to inspect',
    });
  });

  it('passes arguments that only look similar', async () => {
    const values = [
      '4111 1111 1111 1112',
      'DE03 1203 0000 0000 2020 51',
      'https://example.com:8080/x',
      'a@b',
      '1'.repeat(40),
    ];
    for (const llmResult of INVALID_OUTPUTS) {
      const pairs = values.map((value, at): [string, string] => [`v${at}`, value]);
      expect((await redaction({ arguments: pairs, llmResult })).response, llmResult).toEqual({ kind: 'pass' });
    }
  });
});

describe('spend-rate', () => {
  it('annotates calls that have an amount, by the LLM result or the conversation', async () => {
    const rate = await example('spend-rate');
    const annotated = (value: string) => ({ kind: 'set_metadata', key: 'spend.rate', value });
    expect((await rate()).response).toEqual(annotated('amount=120.50 spent=300.00 turns=4 rate=105.13 by=llm'));
    const byHistory = annotated('amount=120.50 spent=300.00 turns=4 rate=105.13 by=history');
    for (const llmResult of [...INVALID_OUTPUTS, '{"spent": [1, "2"]}', '{"spent": [-1]}', '{"spent": [1e300]}']) {
      expect((await rate({ llmResult })).response, llmResult).toEqual(byHistory);
    }
    const withoutHistory = { conversationId: 'another', llmResult: 'prose', arguments: [['Price', '7'] as const] };
    expect((await rate(withoutHistory)).response).toEqual(
      annotated('amount=7.00 spent=0.00 turns=1 rate=7.00 by=history'),
    );
    for (const amount of ['', 'many', '-5', '1e300', '{}']) {
      expect((await rate({ arguments: [['amount', amount]] })).response).toEqual({ kind: 'pass' });
    }
  });
});

it('the AssemblyScript example of the documentation builds with its commands', async () => {
  const text = await readFile(new URL('docs/actions.md', ROOT), 'utf8');
  const [, source] = /```ts\n([^`]*@external[^`]*)```/.exec(text) ?? [];
  const [asc, embed, make] = ['asc gate\\.ts', 'jco embed', 'jco new'].map((begin) =>
    new RegExp(`${begin}[^\`\\n]*`).exec(text)?.[0].split(' '),
  );
  if (source === undefined || !asc || !embed || !make) throw new Error('the documentation has them no more');
  await writeFile(join(folder, 'gate.ts'), source);
  for (const [program = '', ...args] of [asc, embed, make]) {
    const given = args.map((arg) => (arg.startsWith('packages/') ? fileURLToPath(new URL(arg, ROOT)) : arg));
    execFileSync(fileURLToPath(new URL(`node_modules/.bin/${program}`, ROOT)), given, { cwd: folder });
  }
  const action = await compiler.compile(await readFile(join(folder, 'gate.wasm')));
  const decided = async (llmResult: string) => {
    const context = { method: 'tools/call', namespace: 'default', arguments: [], llmResult };
    const inputs = {
      tools: [],
      history: [],
      namespace: 'default',
      conversationId: undefined,
      verify: async () => undefined,
    };
    return (await hosts.run(action, context, new TestHost(inputs))).response;
  };
  expect(await decided('safe')).toBeUndefined();
  expect(await decided('Unsafe.')).toEqual({ kind: 'block', reason: 'not found to be safe' });
});
