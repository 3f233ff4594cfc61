import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { evaluatorInput, validate } from '@sluice/contract';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { run } from '../run.ts';
import { scriptedTerminal } from '../testing/scripted-terminal.ts';
import { COMMAND_ACTION, lineWith } from './command-action.fixture.ts';

// Building and compiling take a second of a whole core each.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let folder: string;
let built: Awaited<ReturnType<typeof sluice>>;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-test-action-'));
  await writeFile(join(folder, 'command-action.js'), COMMAND_ACTION);
  built = await sluice('build', 'command-action.js', '--output', 'json');
});
afterAll(() => rm(folder, { recursive: true }));

async function sluice(...argv: string[]) {
  const terminal = scriptedTerminal({ cwd: folder });
  const code = await run(['action', ...argv], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

async function file(name: string, content: unknown): Promise<string> {
  await writeFile(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  return name;
}

/** A context with the members of every request. */
const context = (name: string, members: object) =>
  file(name, { method: 'tools/call', namespace: 'default', ...members });

/** A run of the scripted action; its output as JSON. */
async function trial(llmResult: string, members: object = {}, ...more: string[]) {
  const name = await context('ctx.json', { llmResult, ...members });
  const { code, out, err } = await sluice(
    'test',
    'command-action.wasm',
    '--context',
    name,
    '--output',
    'json',
    ...more,
  );
  const { log, ...result } = JSON.parse(out);
  const lines: string[] = log.map(({ level, message }: { level: string; message: string }) => `${level} ${message}`);
  // The top level of the action is evaluated first in every run.
  return { code, err, result, lines: lines.slice(1) };
}

/** The values that the deeds of {@link trial} have logged. */
const shown = (lines: readonly string[]) => lines.map((line) => JSON.parse(line.replace(/^info /, '')));

describe('sluice action test', () => {
  it('prints the decision of the action, its log and its duration', async () => {
    const name = await context('ctx.json', { llmResult: 'colored block' });
    expect(await sluice('test', 'command-action.wasm', '--context', name)).toEqual({
      code: 0,
      out: expect.stringMatching(
        /^info: at the top level {"started":true}\ninfo: a\\u001b\[31mb\n {2}c\ndecision: block: no \\u001b\[31mentry\ntime: \d+\.\d ms \(\d+\.\d ms in a new host process\)\n$/,
      ),
      err: '',
    });
  });

  it.each([
    ['nothing', { kind: 'pass' }, { responded: false, ignored_responses: 0 }],
    ['filter warn', { kind: 'warn', message: 'careful' }, { responded: true, ignored_responses: 1 }],
    ['note', { kind: 'set_metadata', key: 'team.note', value: 'v' }, { responded: true, ignored_responses: 0 }],
  ])('as JSON: %s', { tags: ['slow'] }, async (calls, decision, counts) => {
    const { code, result } = await trial(calls);
    const duration = expect.any(Number);
    expect(code).toBe(0);
    expect(result).toEqual({
      decision,
      ...counts,
      duration_ms: duration,
      first_duration_ms: duration,
      copies: [],
    });
  });

  it('reports a decision without effect, and the reason', { tags: ['slow'] }, async () => {
    const reason = 'keys starting with mcp. or service. are reserved';
    const reserved = await trial('reserved');
    expect(reserved).toMatchObject({ code: 0, result: { decision: { key: 'mcp.method' }, without_effect: reason } });
    const long = await trial('long');
    expect(long.result).toMatchObject({ without_effect: 'the value exceeds 256 bytes' });

    const calls = await context('ctx.json', { llmResult: 'pass warn filter' });
    expect((await sluice('test', 'command-action.wasm', '--context', calls)).out).toContain(`
decision: filter tools: a, b
no effect: the request does not list tools
no effect: 2 other response calls
time: `);
    const none = await context('none.json', { llmResult: 'none', method: 'tools/list' });
    expect((await sluice('test', 'command-action.wasm', '--context', none)).out).toContain(
      '\ndecision: filter tools: none\ntime: ',
    );
    const list = await context('list.json', { llmResult: 'warn filter', method: 'tools/list' });
    expect((await sluice('test', 'command-action.wasm', '--context', list)).out).toContain(`
decision: filter tools: a, b
no effect: 1 other response call
time: `);
  });

  it('passes the context of the file to the action, with arguments as in a call', async () => {
    const text = `{"method":"tools/call","llmResult":"context","toolName":"t","namespace":"n",
      "arguments":{"path":"/x","big":9223372036854775807,"deep":{"a":[true]}}}`;
    const { out } = await sluice(
      ...['test', 'command-action.wasm', '--context', await file('ctx.json', text), '--output', 'json'],
    );
    expect(JSON.parse(JSON.parse(out).log[1].message)).toEqual({
      method: 'tools/call',
      namespace: 'n',
      toolName: 't',
      arguments: [
        ['path', '/x'],
        ['big', '9223372036854775807'],
        ['deep', '{"a":[true]}'],
      ],
      llmResult: 'context',
      keys: 6,
    });
  });

  it('reads tools, history and schema from files', async () => {
    const tools = await file('tools.json', [
      { name: 'a', namespace: 'other', input_schema: {} },
      { name: 'both', namespace: 'other', description: 'of other' },
      { name: 'b', namespace: 'default' },
      { name: 'both', namespace: 'n', description: 'of n' },
    ]);
    const history = await file('history.yaml', '- {role: user, content: hello}\n- {content: there}');
    const schema = await file('schema.json', { properties: { a: { type: 'number' } } });
    const { lines, result } = await trial(
      'tools history verify copy',
      { namespace: 'n', conversationId: 'c-1' },
      ...['--tools', tools, '--history', history, '--schema', schema],
    );
    const [seen, output, verified, copied] = shown(lines);
    expect(seen).toEqual([
      ['a', 'both', 'b', 'both'],
      ['a', 'both'],
      { name: 'both', description: 'of n', uri: '', toolType: 'custom', namespace: 'n' },
      null,
    ]);
    const messages = [
      { role: 'user', content: 'hello' },
      { role: 'unknown', content: 'there' },
    ];
    expect(output).toEqual([messages, []]);
    expect(verified).toEqual(['{"a":1}', expect.stringMatching(/number/)]);
    expect(copied).toEqual([true, false, false, true, 1, false]);
    expect(result.copies).toEqual([{ tool: 'b', namespace: 'new' }]);
  });

  it('provides a clock, a console, random numbers and catchable errors to actions in QuickJS', {
    tags: ['slow'],
  }, async () => {
    const { lines } = await trial('time mistyped verify random console');
    const [times, wrongTypes, verified, lot] = shown(lines.slice(0, 4));
    expect(times).toEqual([true, true]);
    expect(wrongTypes).toEqual([
      'block: reason must be a string, not a number',
      'filterTools: tool names must be an array, not a string',
      'setMetadata: value must be a string, not null',
    ]);
    // Without a schema every text is right.
    expect(verified).toEqual(['{"a":1}', '{"a":"x"}']);
    expect(lines.slice(4)).toEqual(['warn w 1 null [1] TypeError: t', 'error undefined', 'info {}']);
    const [again] = shown((await trial('random')).lines);
    expect(again).not.toBe(lot);
  });

  it('parses a request of maximum size in time', { tags: ['slow'] }, async () => {
    const { result } = await trial('pass', { arguments: { text: 'x'.repeat(4 * 1024 * 1024) } });
    expect(result).toMatchObject({ decision: { kind: 'pass' } });
  });

  it('exits with code 1 when the action fails, and prints the reason', async () => {
    const { code, err, result, lines } = await trial('throw');
    expect({ code, err }).toEqual({ code: 1, err: '' });
    const message = `RangeError: out of range, at command-action.js:${lineWith('throw:')}`;
    expect(result).toMatchObject({ failure: { fault: 'trap', message }, copies: [] });
    // Without the output of the engine, which repeats it.
    expect(lines).toEqual(['error before', expect.stringContaining(`error uncaught ${message}\n    at `)]);
    const caller = lineWith('export function evaluate');
    expect(lines[1]?.split('\n').at(-1)).toBe(`    at evaluate (command-action.js:${caller})`);

    // Its copies are discarded.
    const tools = await file('tools.json', [{ name: 'b', namespace: 'default' }]);
    const copied = await trial('copy throw', {}, '--tools', tools);
    expect(shown(copied.lines.slice(0, 1))).toEqual([[true, false, false, false, 1, false]]);
    expect(copied.result).toMatchObject({ failure: { fault: 'trap' }, copies: [] });

    const missing = 'ReferenceError: URL is not defined (not available in QuickJS; build with --engine starlingmonkey)';
    expect((await trial('missing')).result).toMatchObject({
      failure: { message: `${missing}, at command-action.js:${lineWith('missing:')}` },
    });
    expect(await trial('loop')).toMatchObject({ code: 1, result: { failure: { fault: 'timeout' } } });

    const name = await context('promise.json', { llmResult: 'promise' });
    const promised = await sluice('test', 'command-action.wasm', '--context', name);
    expect(promised).toMatchObject({ code: 1, out: expect.stringContaining('evaluate must not be async') });
    expect(promised.err).toMatch(/^sluice: the action failed \(trap\): TypeError: evaluate must not be async/);
  });

  it('reports an invalid file', async () => {
    const ctx = await context('ctx.json', { llmResult: 'pass' });
    expect(await sluice('test', 'gone.wasm', '--context', ctx)).toEqual({
      code: 1,
      out: '',
      err: 'sluice: gone.wasm: no such file\n',
    });
    const text = await file('text.wasm', 'no component');
    expect((await sluice('test', text, '--context', ctx)).err).toMatch(/^sluice: text\.wasm is not an action: /);
    expect((await sluice('test', 'command-action.js', '--context', ctx)).err).toBe(
      'sluice: command-action.js is a source file: run "sluice action build command-action.js", then test command-action.wasm\n',
    );
    const empty = await file('empty.json', {});
    expect((await sluice('test', 'command-action.wasm', '--context', empty)).err).toBe(
      'sluice: invalid context (empty.json)\n  method: is required\n  namespace: is required\n',
    );
    const misspelt = await context('misspelt.json', { llm_result: 'x' });
    expect((await sluice('test', 'command-action.wasm', '--context', misspelt)).err).toBe(
      `sluice: invalid context (misspelt.json)
  llm_result: is not a known field; known fields: method, namespace, toolName, arguments, llmResult, conversationId\n`,
    );
    const pairs = await context('pairs.json', { arguments: [['a', 1]] });
    expect((await sluice('test', 'command-action.wasm', '--context', pairs)).err).toBe(
      `sluice: invalid context (pairs.json)
  arguments: must be an object or a list of string pairs: [["path", "/x"]]\n`,
    );
    const schema = await file('no-schema.json', { type: 'nothing' });
    expect((await sluice('test', 'command-action.wasm', '--context', ctx, '--schema', schema)).err).toMatch(
      /^sluice: no-schema\.json: the schema /,
    );
  });
});

describe('sluice action build', () => {
  it('prints the created file', async () => {
    const { length: bytes } = await readFile(join(folder, 'command-action.wasm'));
    expect(built).toMatchObject({ code: 0, err: '' });
    const duration_ms = expect.any(Number);
    expect(JSON.parse(built.out)).toEqual({ file: 'command-action.wasm', bytes, engine: 'quickjs', duration_ms });
  });

  it('reports the position of each error', async () => {
    await file('wrong.ts', 'export function evaluate( {');
    const one = await sluice('build', 'wrong.ts');
    expect(one).toMatchObject({ code: 1, out: '' });
    expect(one.err).toMatch(/^sluice: .*wrong\.ts:1:\d+: .*\n$/);
    await file('wrong.ts', `import 'node:fs';\nimport 'node:net';\nexport function evaluate() {}`);
    expect((await sluice('build', 'wrong.ts')).err).toMatch(
      /^sluice: wrong\.ts: 2 problems\n {2}.*wrong\.ts:1:8: .*"node:fs" .*\n {2}.*wrong\.ts:2:8: .*"node:net" .*\n$/,
    );
  });

  it('reports an output that cannot be written', async () => {
    await file('empty.js', 'export function evaluate() {}');
    expect(await sluice('build', 'empty.js', '-o', 'gone/x.wasm')).toEqual({
      code: 1,
      out: '',
      err: 'sluice: gone/x.wasm: no such folder: gone\n',
    });
  });

  it('does not overwrite the action', async () => {
    await file('over.ts', 'export function evaluate() {}');
    const { code, err } = await sluice('build', 'over.ts', '-o', 'over.ts');
    expect(code).toBe(1);
    expect(err).toMatch(
      /^sluice: .*over\.ts: output would overwrite a source file of the action; specify another output\n$/,
    );
    expect(await readFile(join(folder, 'over.ts'), 'utf8')).toBe('export function evaluate() {}');
  });

  it('rejects a folder as entry, also with an index file', async () => {
    await mkdir(join(folder, 'indexed'));
    await file('indexed/index.js', 'export function evaluate() {}');
    const { code, err } = await sluice('build', 'indexed');
    expect(code).toBe(1);
    expect(err).toMatch(/^sluice: .*indexed: is a folder; specify the file that exports evaluate\n$/);
  });

  it('reports an async evaluate in one line', async () => {
    await file('async.js', 'export async function evaluate() {}');
    expect(await sluice('build', 'async.js')).toEqual({
      code: 1,
      out: '',
      err: expect.stringMatching(/^sluice: .*async\.js:1:23: evaluate must not be async: nothing runs after .*\n$/),
    });
  });
});

describe('sluice action init', () => {
  it('writes an action that builds and runs, and keeps existing files', async () => {
    await mkdir(join(folder, 'first'));
    await writeFile(join(folder, 'first/ctx.json'), '{"method":"tools/call","namespace":"default","llmResult":"Safe"}');
    const made = await sluice('init', 'first');
    expect(made.code).toBe(0);
    expect(made.out).toMatch(/^created my-action\.ts\nskipped ctx\.json\ncreated /);
    expect(made.err).toMatch(
      /^\nnext: cd first\n {6}sluice action build my-action\.ts\n {6}sluice action test .*\n {6}sluice evaluators apply -f evaluator\.yaml .*ALL.*\n$/,
    );
    expect((await readdir(join(folder, 'first'))).sort()).toEqual(
      ['ctx.json', 'evaluator.d.ts', 'evaluator.yaml', 'my-action.ts', 'tsconfig.json'].sort(),
    );
    expect(await sluice('build', 'first/my-action.ts')).toMatchObject({ code: 0 });
    const decision = async (output: string) => {
      const { out } = await sluice('test', 'my-action.wasm', '--context', output, '--output', 'json');
      return JSON.parse(out).decision.kind;
    };
    expect(await decision('first/ctx.json')).toBe('pass');
    expect(await sluice('init', 'second', '--output', 'json')).toMatchObject({ code: 0 });
    expect(await decision('second/ctx.json')).toBe('block');
    expect(await decision(await context('prose.json', { llmResult: 'I would say it is safe.' }))).toBe(
      'reject_malformed',
    );
  });

  it('writes an evaluator for it that the service accepts', async () => {
    await sluice('init', 'third');
    const { evaluators } = parse(await readFile(join(folder, 'third/evaluator.yaml'), 'utf8'));
    for (const evaluator of evaluators) expect(validate(evaluatorInput, evaluator)).toHaveProperty('value');
    expect(evaluators).toHaveLength(1);
  });

  it.each(['plain-name', 'of: "two" #words', "$& it's"])(
    'refers to the component by its absolute path: %s',
    async (name) => {
      await sluice('init', name);
      const { evaluators } = parse(await readFile(join(folder, name, 'evaluator.yaml'), 'utf8'));
      expect(evaluators[0].processor).toEqual({ path: join(folder, name, 'my-action.wasm') });
    },
  );

  it('prints no cd for the current folder', async () => {
    const terminal = scriptedTerminal({ cwd: join(folder, 'here') });
    expect(await run(['action', 'init', '.'], terminal)).toBe(0);
    expect(terminal.err()).toMatch(/^\nnext: sluice action build my-action\.ts\n {6}sluice action test /);
  });

  it('reports why it fails', async () => {
    await file('plain', '');
    expect((await sluice('init', 'plain')).err).toBe('sluice: plain: a file with this name exists\n');
    expect((await sluice('init', 'plain/in')).err).toBe('sluice: plain/in: a part of the path is not a folder\n');
  });

  it.runIf(process.platform === 'linux')('fails when no folder can be created', async () => {
    expect((await sluice('init', '/proc/sluice/x')).err).toBe('sluice: /proc/sluice/x: cannot create the folder\n');
  });
});
