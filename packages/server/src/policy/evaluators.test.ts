import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TargetLogger } from '../telemetry/log.ts';
import { Evaluators } from './evaluator-set.ts';
import { definition } from './fixtures/definition.ts';
import { PrefixCompiler } from './fixtures/prefix-compiler.ts';
import { ResultSchemas } from './llm/result-schema.ts';
import { ActionFiles } from './load.ts';
import { type RevisionStore, revisionsInMemory } from './revision-store.ts';
import { NO_REVISIONS, type Revisions } from './revisions.ts';

const NOBODY = { expectedRevision: undefined, actor: undefined };

let folder: string;
let compiler: PrefixCompiler;
let schemas: ResultSchemas;
let lines: string[];
/** Lines of the log, with their levels and fields. */
let told: object[];
/** Revisions of the sets that became active, as told to who wants to know. */
let used: number[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-evaluators-'));
  await writeFile(join(folder, 'ok.wasm'), 'ok');
  compiler = new PrefixCompiler();
  schemas = new ResultSchemas();
  lines = [];
  told = [];
  used = [];
});
afterEach(async () => {
  await schemas.close();
  await rm(folder, { recursive: true });
});

const log: Pick<TargetLogger, 'info' | 'warn'> = {
  info: (msg, fields) => told.push({ level: 'info', msg, ...fields }) && lines.push(msg),
  warn: (msg, fields) => told.push({ level: 'warn', msg, ...fields }) && lines.push(msg),
};

function made(
  store: RevisionStore = revisionsInMemory(),
  files = new ActionFiles({ baseFolder: folder, actionsPath: undefined }),
  hasNamespace?: (name: string) => boolean,
): Evaluators {
  return new Evaluators({
    connections: [{ name: 'model', model: 'm', url: 'http://h' }],
    files,
    compiling: compiler,
    schemas,
    store,
    log,
    onUse: ({ revision }) => void used.push(revision),
    now: () => 0,
    ...(hasNamespace && { hasNamespace }),
  });
}

function inNamespace(name: string, method: string, namespace: string | null) {
  return { ...definition(name), trigger: { method, namespace } };
}

function names({ current }: Evaluators): string[] {
  return current.list.map((evaluator) => evaluator.definition.name);
}

describe('the current set', () => {
  it('has what a run needs, and finds evaluators by method and namespace', async () => {
    const evaluators = made();
    const schema = { type: 'object' };
    const first = inNamespace('first', 'tools/call', null);
    const withSchema = { ...first, name: 'schema', llm: { ...first.llm, result_schema: schema } };
    await evaluators.replace([first, inNamespace('list', 'tools/list', 'a'), withSchema], NOBODY);
    const { current } = evaluators;
    const judging = (method: string, namespace: string) =>
      current.judging(method, namespace)?.map((each) => each.definition.name);
    expect(judging('tools/call', 'b')).toEqual(['first', 'schema']);
    expect(judging('tools/list', 'a')).toEqual(['list']);
    expect(judging('tools/list', 'b')).toBeUndefined();
    for (const method of ['tools', 'constructor', '__proto__']) expect(judging(method, 'a')).toBeUndefined();
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

  it('is never changed: a request keeps the one that it took', async () => {
    const evaluators = made();
    await evaluators.replace([definition('a')], NOBODY);
    const taken = evaluators.current;
    await evaluators.replace([definition('b')], NOBODY);
    expect(taken.list.map((each) => each.definition.name)).toEqual(['a']);
    expect([taken.revision, evaluators.current.revision]).toEqual([1, 2]);
    expect(names(evaluators)).toEqual(['b']);
  });

  it('is told of whenever it is another one', async () => {
    let kept = NO_REVISIONS;
    const store: RevisionStore = {
      load: async () => kept,
      save: async (revisions) => {
        kept = revisions;
      },
    };
    const evaluators = made(store);
    await evaluators.start([definition('a')]);
    await evaluators.replace([definition('b')], NOBODY);
    await expect(evaluators.replace([definition('')], NOBODY)).rejects.toThrow();
    await evaluators.activate(1, NOBODY);
    expect(used).toEqual([1, 2, 4]);
    await made(store).start(undefined);
    expect(used).toEqual([1, 2, 4, 4]);
  });

  it('stays until the next one is compiled and written', async () => {
    const writing = Promise.withResolvers<void>();
    const written = Promise.withResolvers<void>();
    const compiling = Promise.withResolvers<void>();
    const evaluators = made({
      load: async () => NO_REVISIONS,
      save: () => {
        writing.resolve();
        return written.promise;
      },
    });
    compiler.before = () => compiling.promise;
    const updating = evaluators.replace([definition('a')], NOBODY);
    await expect.poll(() => compiler.compiled).toHaveLength(1);
    expect([names(evaluators), evaluators.revisions]).toEqual([[], []]);
    compiling.resolve();
    await writing.promise;
    expect([names(evaluators), evaluators.revisions]).toEqual([[], []]);
    written.resolve();
    await updating;
    expect(names(evaluators)).toEqual(['a']);
  });
});

describe('updates', () => {
  it('come one after the other, however long one takes', async () => {
    await writeFile(join(folder, 'slow.wasm'), 'ok slow');
    const evaluators = made();
    const slow = Promise.withResolvers<void>();
    compiler.before = (text) => (text === 'ok slow' ? slow.promise : undefined);
    const first = evaluators.replace([definition('first', 'slow.wasm')], NOBODY);
    const second = evaluators.replace([definition('second')], { ...NOBODY, expectedRevision: 1 });
    await expect.poll(() => compiler.compiled, { interval: 1 }).toEqual(['ok slow']);
    slow.resolve();
    expect((await first).set.revision).toBe(1);
    expect((await second).set.revision).toBe(2);
    expect(names(evaluators)).toEqual(['second']);
  });

  it('ask once whether their actions may be read: a link that is changed later leaves out its evaluator', async () => {
    const asked: string[] = [];
    class Changing extends ActionFiles {
      override async mayRead(path: string): Promise<boolean> {
        asked.push(path);
        return asked.length === 1;
      }
    }
    const evaluators = made(revisionsInMemory(), new Changing({ baseFolder: folder, actionsPath: join(folder, 'no') }));
    expect((await evaluators.replace([definition('a')], NOBODY)).warnings).toMatchObject([{ evaluator: 'a' }]);
    expect(asked).toHaveLength(1);
    await expect(evaluators.activate(1, NOBODY)).rejects.toMatchObject({ code: 'UNPROCESSABLE' });
    await expect(evaluators.replace([definition('a')], NOBODY)).rejects.toMatchObject({ code: 'BAD_REQUEST' });
    expect(asked).toHaveLength(3);
  });

  it('that fail do not keep others from coming through', async () => {
    const evaluators = made();
    compiler.before = () => {
      throw new Error('there is no process to be had');
    };
    await expect(evaluators.replace([definition('a')], NOBODY)).rejects.toThrow('there is no process to be had');
    expect([names(evaluators), evaluators.revisions]).toEqual([[], []]);
    compiler.before = () => {};
    await evaluators.replace([definition('a')], NOBODY);
    expect(names(evaluators)).toEqual(['a']);
  });

  it('compile a few files at one time', async () => {
    const paths = Array.from({ length: 20 }, (_, index) => `${index}.wasm`);
    for (const path of paths) await writeFile(join(folder, path), `ok ${path}`);
    const evaluators = made();
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
      paths.map((path) => definition(path, path)),
      NOBODY,
    );
    expect(names(evaluators)).toEqual(paths);
    expect(compiler.compiled).toHaveLength(20);
    expect(most).toBeLessThanOrEqual(4);
  });

  it('change nothing any more once it was closed, be they under way or new', async () => {
    const saved: Revisions[] = [];
    const evaluators = made({
      load: async () => NO_REVISIONS,
      save: async (revisions) => {
        saved.push(revisions);
      },
    });
    const compiling = Promise.withResolvers<void>();
    compiler.before = () => compiling.promise;
    const under = evaluators.replace([definition('a')], NOBODY);
    const settled = Promise.allSettled([under, evaluators.replace([], NOBODY)]);
    await expect.poll(() => compiler.compiled).toHaveLength(1);
    await evaluators.close();
    compiling.resolve();
    expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    await expect(evaluators.replace([], NOBODY)).rejects.toThrow('the service stops');
    expect([saved, names(evaluators)]).toEqual([[], []]);
  });

  it('that are being written are waited for when it is closed', async () => {
    const written = Promise.withResolvers<void>();
    const writing = Promise.withResolvers<void>();
    const evaluators = made({
      load: async () => NO_REVISIONS,
      save: () => {
        writing.resolve();
        return written.promise;
      },
    });
    const updating = evaluators.replace([definition('a')], NOBODY);
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

describe('a trigger that nothing may ever fit', () => {
  const METHOD = 'evaluator "method" may judge nothing: MCP has no method "tools/cal"';
  const NAMESPACE = 'evaluator "namespace" may judge nothing: there is no namespace "financ" yet';
  const BOTH = 'evaluator "both" may judge nothing: MCP has no method "Tools/Call"; there is no namespace "financ" yet';
  const doubtful = [
    inNamespace('method', 'tools/cal', null),
    inNamespace('namespace', 'tools/list', 'financ'),
    inNamespace('both', 'Tools/Call', 'financ'),
    inNamespace('neither', 'resources/read', 'finance'),
    { ...inNamespace('left out', 'none', 'financ'), processor: { path: 'none.wasm' } },
  ];
  const doubts = () => lines.splice(0).filter((line) => line.includes('may judge nothing'));

  it('is warned of at every load, and judged by all the same', async () => {
    const store = revisionsInMemory();
    const evaluators = made(store, undefined, (name) => name === 'finance');
    await evaluators.start(doubtful);
    expect(doubts()).toEqual([METHOD, NAMESPACE, BOTH]);
    expect(evaluators.current.judging('tools/cal', 'any')).toHaveLength(1);
    expect((await evaluators.replace(doubtful, NOBODY)).warnings).toMatchObject([{ evaluator: 'left out' }]);
    expect(doubts()).toEqual([METHOD, NAMESPACE, BOTH]);
    await evaluators.activate(1, NOBODY);
    expect(doubts()).toEqual([METHOD, NAMESPACE, BOTH]);
  });

  it('of a namespace is not told where nobody knows them', async () => {
    await made().replace(doubtful, NOBODY);
    expect(doubts()).toEqual([METHOD, BOTH.replace(/;.*/, '')]);
  });
});

describe('the names that a start left out', () => {
  it('are those that the configuration has, each once and none that judges', async () => {
    const evaluators = made();
    const configured = [definition('a'), definition('a'), definition('b', 'none.wasm'), definition('b', 'none.wasm')];
    await evaluators.start([...configured, definition('c', 'none.wasm'), definition('c')], ['no-trigger', 'a', 'b']);
    expect(names(evaluators)).toEqual(['a']);
    expect(evaluators.activeRevision?.skipped).toEqual(['no-trigger', 'b', 'c']);
  });
});

it('a start whose set cannot be written fails', async () => {
  const evaluators = made({
    load: async () => NO_REVISIONS,
    save: () => Promise.reject(new Error('the disk is full')),
  });
  await expect(evaluators.start([definition('a')])).rejects.toThrow('the disk is full');
});

it('a start without anything to load loads nothing and writes nothing', async () => {
  const evaluators = made({
    load: async () => NO_REVISIONS,
    save: () => Promise.reject(new Error('nothing is to be written')),
  });
  await evaluators.start(undefined);
  expect([evaluators.current.revision, lines]).toEqual([0, []]);
});

describe('the log', () => {
  const missing = 'none.wasm: no such file (a relative path begins at the folder of the service-config file)';

  it('tells of an update: by whom, how many judge by it, and who is left out', async () => {
    await made().replace([definition('a'), definition('b', 'none.wasm')], { ...NOBODY, actor: 'ann' });
    expect(told).toEqual([
      { level: 'warn', msg: `evaluator "b" is left out: ${missing}`, evaluator: 'b' },
      { level: 'info', msg: 'evaluators replaced', revision: 1, evaluators: 1, skipped: ['b'], actor: 'ann' },
    ]);
  });

  it('tells of a start: where the evaluators are from, and who is left out', async () => {
    const unknown = { ...definition('c'), llm: { ...definition('c').llm, connection: 'none' } };
    let kept = NO_REVISIONS;
    const store: RevisionStore = {
      load: async () => kept,
      save: async (revisions) => {
        kept = revisions;
      },
    };
    const left = [
      {
        level: 'warn',
        msg: 'evaluator "c" is left out: llm.connection is "none", which is no connection: known are model; llm_connections of the service-config file has them',
        evaluator: 'c',
      },
      { level: 'warn', msg: `evaluator "b" is left out: ${missing}`, evaluator: 'b' },
    ];
    const loaded = { level: 'info', msg: 'evaluators loaded', revision: 1, evaluators: 1 };
    await made(store).start([definition('a'), definition('b', 'none.wasm'), unknown]);
    expect(told).toEqual([...left, { ...loaded, from: 'the service-config file' }]);
    expect(kept.list).toMatchObject([{ skipped: ['c', 'b'] }]);
    told = [];
    const again = made(store);
    await again.start(undefined);
    expect(told).toEqual([...left, { ...loaded, from: 'the active revision' }]);
    expect(again.current.leftOut).toEqual(['c', 'b']);
  });
});

describe('what is refused', () => {
  it('names the revision that is active, or says that none is', async () => {
    const evaluators = made();
    const stale = evaluators.replace([], { ...NOBODY, expectedRevision: 3 });
    await expect(stale).rejects.toThrow('revision 3 is not active, none is: read the evaluators again');
    await evaluators.replace([], NOBODY);
    const later = evaluators.replace([], { ...NOBODY, expectedRevision: 3 });
    await expect(later).rejects.toThrow('revision 3 is not active, revision 1 is: read the evaluators again');
  });

  it('is first a revision that there is not, then one that was not expected', async () => {
    const unknown = made().activate(9, { ...NOBODY, expectedRevision: 3 });
    await expect(unknown).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('is kept with ten reasons, and the number of the others', async () => {
    const evaluators = made();
    const nameless = (count: number) => Array.from({ length: count }, () => definition(''));
    for (const count of [10, 12]) {
      await expect(evaluators.replace(nameless(count), NOBODY)).rejects.toMatchObject({ details: { length: count } });
    }
    const ten = Array.from({ length: 10 }, (_, at) => `evaluators.${at}.name must not be empty`).join('; ');
    expect(evaluators.revisions.map((revision) => revision.failure_reason)).toEqual([`${ten}; and 2 more`, ten]);
  });
});
