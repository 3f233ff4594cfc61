import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { memoryRevisionStore } from '../registry/store/fixtures/memory-revision-store.ts';
import type { RevisionStore } from '../registry/store/revision-store.ts';
import { NO_REVISIONS, type Revisions } from '../registry/store/revisions.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { ActionFiles } from './action-loader.ts';
import { Evaluators } from './evaluators.ts';
import { evaluatorDefinition } from './fixtures/evaluator-definition.ts';
import { PrefixCompiler } from './fixtures/prefix-compiler.ts';
import { ResultSchemas } from './llm/result-schema.ts';

const ANONYMOUS = { expectedRevision: undefined, actor: undefined };

let folder: string;
let compiler: PrefixCompiler;
let schemas: ResultSchemas;
let lines: string[];
/** Log lines with their levels and fields. */
let entries: object[];
/** Revisions that became active. */
let activated: number[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-evaluators-'));
  await writeFile(join(folder, 'ok.wasm'), 'ok');
  compiler = new PrefixCompiler();
  schemas = new ResultSchemas();
  lines = [];
  entries = [];
  activated = [];
});
afterEach(async () => {
  await schemas.close();
  await rm(folder, { recursive: true });
});

const log: Pick<TargetLogger, 'info' | 'warn' | 'error'> = {
  error: (msg, fields) => entries.push({ level: 'error', msg, ...fields }) && lines.push(msg),
  info: (msg, fields) => entries.push({ level: 'info', msg, ...fields }) && lines.push(msg),
  warn: (msg, fields) => entries.push({ level: 'warn', msg, ...fields }) && lines.push(msg),
};

function createEvaluators(
  store: RevisionStore = memoryRevisionStore(),
  files = new ActionFiles({ baseFolder: folder, actionsPath: undefined }),
  namespaceExists?: (name: string) => boolean,
): Evaluators {
  const evaluators = new Evaluators({
    connections: [{ name: 'model', model: 'm', url: 'http://h' }],
    files,
    compiler,
    schemas,
    store,
    log,
    now: () => 0,
    ...(namespaceExists && { namespaceExists }),
  });
  evaluators.activated.subscribe(({ revision }) => activated.push(revision));
  return evaluators;
}

function inNamespace(name: string, method: string, namespace: string | null) {
  return { ...evaluatorDefinition(name), trigger: { method, namespace } };
}

function names({ current }: Evaluators): string[] {
  return current.list.map((evaluator) => evaluator.definition.name);
}

describe('the current set', () => {
  it('has what evaluations need, and finds evaluators by method and namespace', async () => {
    const evaluators = createEvaluators();
    const schema = { type: 'object' };
    const first = inNamespace('first', 'tools/call', null);
    const withSchema = { ...first, name: 'schema', llm: { ...first.llm, result_schema: schema } };
    await evaluators.replace([first, inNamespace('list', 'tools/list', 'a'), withSchema], ANONYMOUS);
    const { current } = evaluators;
    const matching = (method: string, namespace: string) =>
      current.matching(method, namespace)?.map((each) => each.definition.name);
    expect(matching('tools/call', 'b')).toEqual(['first', 'schema']);
    expect(matching('tools/list', 'a')).toEqual(['list']);
    expect(matching('tools/list', 'b')).toBeUndefined();
    for (const method of ['tools', 'constructor', '__proto__']) expect(matching(method, 'a')).toBeUndefined();
    const [one, , three] = current.list;
    expect(one).toMatchObject({
      connection: { name: 'model', url: 'http://h' },
      action: { glue: '' },
      schema: undefined,
    });
    expect(await three?.schema?.validate('[]')).toMatch(/object/);
    expect(await three?.schema?.validate('{}')).toBeUndefined();
    expect(current.actionCount).toBe(1);
  });

  it('is immutable: a request keeps the set that it has taken', async () => {
    const evaluators = createEvaluators();
    await evaluators.replace([evaluatorDefinition('a')], ANONYMOUS);
    const taken = evaluators.current;
    await evaluators.replace([evaluatorDefinition('b')], ANONYMOUS);
    expect(taken.list.map((each) => each.definition.name)).toEqual(['a']);
    expect([taken.revision, evaluators.current.revision]).toEqual([1, 2]);
    expect(names(evaluators)).toEqual(['b']);
  });

  it('is reported whenever another one is activated', async () => {
    let stored = NO_REVISIONS;
    const store: RevisionStore = {
      load: async () => stored,
      save: async (revisions) => {
        stored = revisions;
      },
    };
    const evaluators = createEvaluators(store);
    await evaluators.start([evaluatorDefinition('a')]);
    await evaluators.replace([evaluatorDefinition('b')], ANONYMOUS);
    await expect(evaluators.replace([evaluatorDefinition('')], ANONYMOUS)).rejects.toThrow();
    await evaluators.activate(1, ANONYMOUS);
    expect(activated).toEqual([1, 2, 4]);
    await createEvaluators(store).start(undefined);
    expect(activated).toEqual([1, 2, 4, 4]);
  });

  it('is active until the next one is compiled and stored', async () => {
    const writing = Promise.withResolvers<void>();
    const written = Promise.withResolvers<void>();
    const compiling = Promise.withResolvers<void>();
    const evaluators = createEvaluators({
      load: async () => NO_REVISIONS,
      save: () => {
        writing.resolve();
        return written.promise;
      },
    });
    compiler.before = () => compiling.promise;
    const updating = evaluators.replace([evaluatorDefinition('a')], ANONYMOUS);
    await expect.poll(() => compiler.compiled).toHaveLength(1);
    expect([names(evaluators), evaluators.history.list]).toEqual([[], []]);
    compiling.resolve();
    await writing.promise;
    expect([names(evaluators), evaluators.history.list]).toEqual([[], []]);
    written.resolve();
    await updating;
    expect(names(evaluators)).toEqual(['a']);
  });
});

describe('updates', () => {
  it('run one after another, regardless of their duration', async () => {
    await writeFile(join(folder, 'slow.wasm'), 'ok slow');
    const evaluators = createEvaluators();
    const slow = Promise.withResolvers<void>();
    compiler.before = (text) => (text === 'ok slow' ? slow.promise : undefined);
    const first = evaluators.replace([evaluatorDefinition('first', 'slow.wasm')], ANONYMOUS);
    const second = evaluators.replace([evaluatorDefinition('second')], { ...ANONYMOUS, expectedRevision: 1 });
    await expect.poll(() => compiler.compiled, { interval: 1 }).toEqual(['ok slow']);
    slow.resolve();
    expect((await first).set.revision).toBe(1);
    expect((await second).set.revision).toBe(2);
    expect(names(evaluators)).toEqual(['second']);
  });

  it('check once whether actions are allowed: an evaluator whose link changes later is skipped', async () => {
    const checked: string[] = [];
    class Changing extends ActionFiles {
      override async isAllowed(path: string): Promise<boolean> {
        checked.push(path);
        return checked.length === 1;
      }
    }
    const evaluators = createEvaluators(
      memoryRevisionStore(),
      new Changing({ baseFolder: folder, actionsPath: join(folder, 'no') }),
    );
    expect((await evaluators.replace([evaluatorDefinition('a')], ANONYMOUS)).warnings).toMatchObject([
      { evaluator: 'a' },
    ]);
    expect(checked).toHaveLength(1);
    // It was skipped in the revision, so it may be skipped again, but not with `strict`.
    const { warnings } = await evaluators.activate(1, ANONYMOUS);
    expect(warnings).toMatchObject([{ evaluator: 'a', code: 'INVALID_EVALUATOR' }]);
    await expect(evaluators.activate(1, { ...ANONYMOUS, strict: true })).rejects.toMatchObject({
      code: 'UNPROCESSABLE',
    });
    await expect(evaluators.replace([evaluatorDefinition('a')], ANONYMOUS)).rejects.toMatchObject({
      code: 'BAD_REQUEST',
    });
    expect(checked).toHaveLength(4);
  });

  it('that fail do not block others', async () => {
    const evaluators = createEvaluators();
    compiler.before = () => {
      throw new Error('cannot start a process');
    };
    await expect(evaluators.replace([evaluatorDefinition('a')], ANONYMOUS)).rejects.toThrow('cannot start a process');
    expect([names(evaluators), evaluators.history.list]).toEqual([[], []]);
    compiler.before = () => {};
    await evaluators.replace([evaluatorDefinition('a')], ANONYMOUS);
    expect(names(evaluators)).toEqual(['a']);
  });

  it('compile a few files concurrently', async () => {
    const paths = Array.from({ length: 20 }, (_, index) => `${index}.wasm`);
    for (const path of paths) await writeFile(join(folder, path), `ok ${path}`);
    const evaluators = createEvaluators();
    let under = 0;
    let most = 0;
    const several = Promise.withResolvers<void>();
    compiler.before = async () => {
      most = Math.max(most, ++under);
      if (under > 1) several.resolve();
      await several.promise;
      await new Promise(setImmediate);
      under--;
    };
    await evaluators.replace(
      paths.map((path) => evaluatorDefinition(path, path)),
      ANONYMOUS,
    );
    expect(names(evaluators)).toEqual(paths);
    expect(compiler.compiled).toHaveLength(20);
    expect(most).toBeLessThanOrEqual(4);
  });

  it('in progress or new change nothing after close', async () => {
    const saved: Revisions[] = [];
    const evaluators = createEvaluators({
      load: async () => NO_REVISIONS,
      save: async (revisions) => {
        saved.push(revisions);
      },
    });
    const compiling = Promise.withResolvers<void>();
    compiler.before = () => compiling.promise;
    const under = evaluators.replace([evaluatorDefinition('a')], ANONYMOUS);
    const settled = Promise.allSettled([under, evaluators.replace([], ANONYMOUS)]);
    await expect.poll(() => compiler.compiled).toHaveLength(1);
    await evaluators.close();
    compiling.resolve();
    expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    await expect(evaluators.replace([], ANONYMOUS)).rejects.toThrow('service is shutting down');
    expect([saved, names(evaluators)]).toEqual([[], []]);
  });

  it('that are being stored are awaited by close', async () => {
    const written = Promise.withResolvers<void>();
    const writing = Promise.withResolvers<void>();
    const evaluators = createEvaluators({
      load: async () => NO_REVISIONS,
      save: () => {
        writing.resolve();
        return written.promise;
      },
    });
    const updating = evaluators.replace([evaluatorDefinition('a')], ANONYMOUS);
    await writing.promise;
    let closed = false;
    const closing = evaluators.close().then(() => {
      closed = true;
    });
    await new Promise(setImmediate);
    expect(closed).toBe(false);
    written.resolve();
    await closing;
    expect((await updating).set.revision).toBe(1);
  });
});

describe('an unreachable trigger', () => {
  const METHOD = 'evaluator "method" may never match: "initialize" is never evaluated';
  const NAMESPACE = 'evaluator "namespace" may never match: namespace "financ" does not exist';
  const BOTH = 'evaluator "both" may never match: "ping" is never evaluated; namespace "financ" does not exist';
  const unreachable = [
    inNamespace('method', 'initialize', null),
    inNamespace('namespace', 'tools/list', 'financ'),
    inNamespace('both', 'ping', 'financ'),
    inNamespace('neither', 'resources/read', 'finance'),
    // Unknown methods are evaluated.
    inNamespace('vendor', 'x-vendor/do', null),
    inNamespace('unknown', 'unknown/x', 'finance'),
    { ...inNamespace('skipped', 'none', 'financ'), processor: { path: 'none.wasm' } },
  ];
  const warnings = () => lines.splice(0).filter((line) => line.includes('may never match'));

  it('causes a warning on every load, but is active', async () => {
    const store = memoryRevisionStore();
    const evaluators = createEvaluators(store, undefined, (name) => name === 'finance');
    await evaluators.start(unreachable);
    expect(warnings()).toEqual([METHOD, NAMESPACE, BOTH]);
    expect(evaluators.current.matching('x-vendor/do', 'any')).toHaveLength(1);
    expect((await evaluators.replace(unreachable, ANONYMOUS)).warnings).toMatchObject([
      { evaluator: 'skipped', code: 'WASM_COMPILE_FAILED' },
      { evaluator: 'method', code: 'TRIGGER_NEVER_MATCHES' },
      { evaluator: 'namespace', code: 'TRIGGER_NEVER_MATCHES' },
      { evaluator: 'both', code: 'TRIGGER_NEVER_MATCHES' },
    ]);
    expect(warnings()).toEqual([METHOD, NAMESPACE, BOTH]);
    await evaluators.activate(1, ANONYMOUS);
    expect(warnings()).toEqual([METHOD, NAMESPACE, BOTH]);
  });

  it('of a namespace causes no warning if namespaces are unknown', async () => {
    await createEvaluators().replace(unreachable, ANONYMOUS);
    expect(warnings()).toEqual([METHOD, BOTH.replace(/;.*/, '')]);
  });
});

describe('the names that startup skips', () => {
  it('are those of the configuration, each once and without loaded ones', async () => {
    const evaluators = createEvaluators();
    const configured = [
      evaluatorDefinition('a'),
      evaluatorDefinition('a'),
      evaluatorDefinition('b', 'none.wasm'),
      evaluatorDefinition('b', 'none.wasm'),
    ];
    await evaluators.start(
      [...configured, evaluatorDefinition('c', 'none.wasm'), evaluatorDefinition('c')],
      ['no-trigger', 'a', 'b'],
    );
    expect(names(evaluators)).toEqual(['a']);
    expect(evaluators.history.active?.skipped).toEqual(['no-trigger', 'b', 'c']);
  });
});

it('startup fails if its set cannot be stored', async () => {
  const evaluators = createEvaluators({
    load: async () => NO_REVISIONS,
    save: () => Promise.reject(new Error('the disk is full')),
  });
  await expect(evaluators.start([evaluatorDefinition('a')])).rejects.toThrow('the disk is full');
});

it('startup without evaluators loads and stores nothing', async () => {
  const evaluators = createEvaluators({
    load: async () => NO_REVISIONS,
    save: () => Promise.reject(new Error('unexpected save')),
  });
  await evaluators.start(undefined);
  expect([evaluators.current.revision, lines]).toEqual([0, []]);
});

describe('the log', () => {
  const missing = 'none.wasm: no such file (relative paths start at the folder of the bootstrap file)';

  it('has the actor of an update, the number of evaluators and those that were skipped', async () => {
    await createEvaluators().replace([evaluatorDefinition('a'), evaluatorDefinition('b', 'none.wasm')], {
      ...ANONYMOUS,
      actor: 'ann',
    });
    expect(entries).toEqual([
      { level: 'warn', msg: `evaluator "b" skipped: ${missing}`, evaluator: 'b' },
      { level: 'info', msg: 'evaluators replaced', revision: 1, evaluators: 1, skipped: ['b'], actor: 'ann' },
    ]);
  });

  it('has the origin of the evaluators at startup and those that were skipped', async () => {
    const unknown = { ...evaluatorDefinition('c'), llm: { ...evaluatorDefinition('c').llm, connection: 'none' } };
    let stored = NO_REVISIONS;
    const store: RevisionStore = {
      load: async () => stored,
      save: async (revisions) => {
        stored = revisions;
      },
    };
    const skippedLines = [
      {
        level: 'warn',
        msg: 'evaluator "c" skipped: llm.connection is an unknown connection "none"; known connections: model in llm_connections of the bootstrap file',
        evaluator: 'c',
      },
      { level: 'warn', msg: `evaluator "b" skipped: ${missing}`, evaluator: 'b' },
    ];
    const loaded = { level: 'info', msg: 'evaluators loaded', revision: 1, evaluators: 1 };
    await createEvaluators(store).start([evaluatorDefinition('a'), evaluatorDefinition('b', 'none.wasm'), unknown]);
    expect(entries).toEqual([...skippedLines, { ...loaded, from: 'the bootstrap file' }]);
    expect(stored.list).toMatchObject([{ skipped: ['c', 'b'] }]);
    entries = [];
    const again = createEvaluators(store);
    await again.start(undefined);
    expect(entries).toEqual([...skippedLines, { ...loaded, from: 'the active revision' }]);
    expect(again.current.skipped).toEqual(['c', 'b']);
  });
});

describe('a rejected update', () => {
  it('names the active revision, if there is one', async () => {
    const evaluators = createEvaluators();
    const stale = evaluators.replace([], { ...ANONYMOUS, expectedRevision: 3 });
    await expect(stale).rejects.toThrow('expected revision 3, but no revision is active');
    await evaluators.replace([], ANONYMOUS);
    const later = evaluators.replace([], { ...ANONYMOUS, expectedRevision: 3 });
    await expect(later).rejects.toThrow('expected revision 3, but revision 1 is active');
  });

  it('reports an unknown revision before an unexpected one', async () => {
    const unknown = createEvaluators().activate(9, { ...ANONYMOUS, expectedRevision: 3 });
    await expect(unknown).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('is stored with ten issues, and the number of the others', async () => {
    const evaluators = createEvaluators();
    const nameless = (count: number) => Array.from({ length: count }, () => evaluatorDefinition(''));
    for (const count of [10, 12]) {
      await expect(evaluators.replace(nameless(count), ANONYMOUS)).rejects.toMatchObject({
        details: { length: count },
      });
    }
    const ten = Array.from({ length: 10 }, (_, at) => `evaluators.${at}.name must not be empty`).join('; ');
    expect(evaluators.history.list.map((revision) => revision.failure_reason)).toEqual([`${ten}; and 2 more`, ten]);
  });
});
