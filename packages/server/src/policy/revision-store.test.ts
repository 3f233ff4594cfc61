import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { folderWith } from '../mcp/sessions/fixtures/folder-with.ts';
import { RecordedLog } from '../registry/store/fixtures/recorded-log.ts';
import { CRASHES, type Fault, VolatileFiles } from '../registry/store/fixtures/volatile-files.ts';
import { StoreError } from '../registry/store/store.ts';
import { evaluatorDefinition } from './fixtures/evaluator-definition.ts';
import { FileRevisionStore, parseRevisions, type RevisionStore } from './revision-store.ts';
import {
  addActive,
  addRejected,
  NO_REVISIONS,
  type Revision,
  type RevisionInput,
  type Revisions,
  serializeEvaluators,
  serializeRevision,
} from './revisions.ts';

const NAME = 'evaluator-revisions.json';
const NOW = 1_767_323_045_678;

function store(files: VolatileFiles, log = new RecordedLog(), recover = false): RevisionStore {
  return new FileRevisionStore({ folder: '/registry', files, recover, log, now: () => NOW });
}

function submission(name: string): RevisionInput {
  const at = '2026-01-02T03:04:05.678Z';
  return { content: serializeEvaluators([evaluatorDefinition(name)]), origin: 'api', actor: 'ann', at };
}

const FIRST = addActive(NO_REVISIONS, submission('a'), []);
const SECOND = addRejected(addActive(FIRST, submission('b'), ['b']), submission('c'), 'because');

/** In the format of the file. */
function written({ list }: Revisions): Record<string, unknown>[] {
  return list.map((revision) => JSON.parse(serializeRevision(revision)));
}

async function failureOf(promise: Promise<unknown>): Promise<StoreError> {
  const error = await promise.then(String, (reason: unknown) => reason);
  if (!(error instanceof StoreError)) throw new Error(`no StoreError but ${String(error)}`);
  return error;
}

describe('revisions', () => {
  it('are none before there is a file', async () => {
    expect(await store(new VolatileFiles()).load()).toEqual(NO_REVISIONS);
  });

  it('are read as they were saved', async () => {
    const files = new VolatileFiles();
    const first = store(files);
    await first.load();
    await first.save(FIRST);
    expect(await store(files).load()).toEqual(FIRST);
    await first.save(SECOND);
    expect(await store(files).load()).toEqual(SECOND);
    const dump: unknown = JSON.parse(files.dump()[NAME] ?? '');
    expect(dump).toEqual({ revisions: written(SECOND), active_id: 2, next_id: 4 });
  });

  it('have the original notation of numbers in a schema', async () => {
    const files = new VolatileFiles();
    const one = evaluatorDefinition('a');
    const llm = { ...one.llm, result_schema: { maximum: JSON.rawJSON('9007199254740993') } };
    const saving = store(files);
    await saving.save(
      addActive(NO_REVISIONS, { ...submission(''), content: serializeEvaluators([{ ...one, llm }]) }, []),
    );
    expect(files.dump()[NAME]).toContain('"maximum":9007199254740993');
    expect((await store(files).load()).list[0]?.evaluatorsJson).toContain('"maximum":9007199254740993');
  });

  it('that were saved are there after every kind of crash, and half of a saving never is', async () => {
    for (const crash of CRASHES) {
      for (let steps = 0; ; steps++) {
        let left: VolatileFiles | undefined;
        let saved = false;
        let count = -1;
        const files: VolatileFiles = new VolatileFiles(() => {
          if (count === steps) left ??= files.after(crash);
          if (count >= 0) count++;
        });
        const saving = store(files);
        await saving.save(FIRST);
        count = 0;
        await saving.save(SECOND);
        saved = left === undefined;
        const found = await store(left ?? files.after(crash)).load();
        if (saved) expect(found, `${crash} after all`).toEqual(SECOND);
        else expect([FIRST, SECOND], `${crash} at step ${steps}`).toContainEqual(found);
        if (saved) break;
      }
    }
  });

  it.each(['open', 'write', 'sync', 'rename', 'syncFolder'])(
    'that could not be saved because of %s are not there after a restart, and can be saved again',
    async (operation) => {
      let failures = 0;
      const fault: Fault = (at) => (failures > 0 && at === operation && failures-- > 0 ? 'EIO' : undefined);
      const files = await folderWith({}, fault);
      const saving = store(files);
      await saving.save(FIRST);
      failures = 1;
      const { message } = await failureOf(saving.save(SECOND));
      expect(message).toMatch(/^\/registry\/evaluator-revisions\.json could not be written: EIO/);
      for (const crash of CRASHES) expect(await store(files.after(crash)).load(), crash).toEqual(FIRST);
      await saving.save(SECOND);
      expect(await store(files).load()).toEqual(SECOND);
    },
  );
});

/** The contents of the file, with changes. */
function spoilt(change: Partial<Record<'revisions' | 'active_id' | 'next_id', unknown>>): string {
  return JSON.stringify({ revisions: written(SECOND), active_id: 2, next_id: 4, ...change });
}

const SECRET = 'sk-S3CRET';
const inline = { ...evaluatorDefinition('a'), llm: { ...evaluatorDefinition('a').llm, operation: SECRET } };

describe.each<[string, string | Buffer]>([
  ['nothing', ''],
  ['half of it', spoilt({}).slice(0, -10)],
  ['text that is not JSON', `{"api_key": ${SECRET}}`],
  ['another value', '[]'],
  ['invalid UTF-8', Buffer.from([0x7b, 0xff, 0x7d])],
  ['no list of revisions', spoilt({ revisions: {} })],
  [
    'an invalid evaluator',
    spoilt({ revisions: [{ ...written(SECOND)[0], evaluators: [inline] }, ...written(SECOND).slice(1)] }),
  ],
  ['evaluators that are not a list', spoilt({ revisions: written(SECOND).map((one) => ({ ...one, evaluators: {} })) })],
  ['a revision without evaluators', spoilt({ revisions: written(SECOND).map(({ evaluators: _, ...one }) => one) })],
  ['evaluators that are not JSON', spoilt({}).replace('"evaluators":[', `"evaluators":[${SECRET},`)],
  ['text after its evaluators', spoilt({}).replace('],"skipped"', '].5,"skipped"')],
  ['duplicate ids', spoilt({ revisions: [0, 0, 1].map((index) => written(SECOND)[index]) })],
  ['an unknown active_id', spoilt({ active_id: 9 })],
  [
    'an unknown active_id and no active revision',
    spoilt({ active_id: 9, revisions: written(SECOND).map((one) => ({ ...one, status: 'superseded' })) }),
  ],
  ['an active revision without active_id', spoilt({ active_id: null })],
  ['an active_id of another status', spoilt({ active_id: 1 })],
  ['a next_id that is in use', spoilt({ next_id: 3 })],
])('a file with %s', (_what, content) => {
  it('aborts startup with one line that names the file and quotes nothing of it', async () => {
    const files = await folderWith({ [NAME]: content });
    const { message } = await failureOf(store(files).load());
    expect(message).toMatch(/^\/registry\/evaluator-revisions\.json .*SERVICE_PERSIST_RECOVER=rename/);
    expect(message).not.toMatch(/\n|S3CRET/);
    expect(files.dump()).toHaveProperty([NAME]);
  });

  it('is renamed with SERVICE_PERSIST_RECOVER=rename and an error in the log', async () => {
    const files = await folderWith({ [NAME]: content });
    const log = new RecordedLog();
    expect(await store(files, log, true).load()).toEqual(NO_REVISIONS);
    expect(Object.keys(files.dump())).toEqual([`${NAME}.corrupt-${NOW}`]);
    expect(log.lines).toEqual([`error renamed corrupt file ${NAME} to ${NAME}.corrupt-${NOW}; starting without it`]);
    expect(files.after('lost').dump()).toEqual(files.dump());
  });
});

it('the error of an invalid evaluator has its path', async () => {
  const [first, second, ...others] = written(SECOND);
  const files = await folderWith({
    [NAME]: spoilt({ revisions: [first, { ...second, evaluators: [inline] }, ...others] }),
  });
  const { message } = await failureOf(store(files).load());
  expect(message).toContain('is not valid: revisions.1.evaluators.0.llm.operation ');
});

it('an unreadable file aborts startup even then', async () => {
  const files = await folderWith({ [NAME]: spoilt({}) });
  files.read = () => Promise.reject(new Error('EIO: a bad sector'));
  const { message } = await failureOf(store(files, new RecordedLog(), true).load());
  expect(message).toBe('/registry/evaluator-revisions.json cannot be read: EIO: a bad sector');
  expect(Object.keys(files.dump())).toEqual([NAME]);
});

it('a file without revisions is valid', async () => {
  const files = await folderWith({ [NAME]: '{"revisions":[],"active_id":null,"next_id":7,"more":1}' });
  expect(await store(files).load()).toEqual({ list: [], activeId: undefined, nextId: 7 } satisfies Revisions);
});

it('a file with indentation, unknown members and escapes is read', async () => {
  const more = written(SECOND).map((one) => ({ more: [{ evaluators: 1 }], ...one }));
  const file = JSON.stringify({ active_id: 2, next_id: 4, more: {}, revisions: more }, undefined, 2);
  const escaped = file.replaceAll('"evaluators"', '"evaluat\\u006frs"').replace('"revisions"', '"\\u0072evisions"');
  const content = escaped.replace('{', '{ "revisions": [{"evaluators": []}],');
  expect(content).toContain('"evaluat\\u006frs"');
  expect(await store(await folderWith({ [NAME]: content })).load()).toEqual(SECOND);
});

describe('a file of a version without a limit of bytes', () => {
  const MANY = 330_000;
  const one = evaluatorDefinition('a');
  // 1 MiB of text each; 20 MiB as objects.
  const objects = serializeEvaluators([
    { ...one, llm: { ...one.llm, result_schema: { examples: Array.from({ length: MANY }, () => ({})) } } },
  ]);
  const prompt = serializeEvaluators([{ ...one, llm: { ...one.llm, prompt: '{},'.repeat(MANY) } }]);
  const first: Revision = {
    id: 1,
    created_at: submission('a').at,
    activated_at: submission('a').at,
    status: 'active',
    checksum: prompt.checksum,
    origin: 'api',
    evaluatorsJson: prompt.evaluatorsJson,
    skipped: [],
  };
  const revisions = Array.from({ length: 50 }, (_, index) => {
    const id = index + 1;
    const status = id === 1 ? 'active' : 'rejected';
    return serializeRevision({ ...first, ...(id > 30 || id === 1 ? prompt : objects), id, status });
  });
  const content = `{"revisions":[${revisions.join(',')}],"active_id":1,"next_id":51}`;

  it('is read: the active revision and the newest within the limit', () => {
    const loaded = parseRevisions(NAME, Buffer.from(content));
    expect(loaded.list.map(({ id }) => id)).toEqual([1, ...Array.from({ length: 15 }, (_, index) => index + 36)]);
    expect(loaded.list[0]).toEqual(first);
    expect([loaded.activeId, loaded.nextId]).toEqual([1, 51]);
  });

  it('is read without enough memory for all evaluators as objects', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-revisions-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    await writeFile(join(folder, NAME), content);
    const script = `
      import { readFileSync } from 'node:fs';
      import { parseRevisions } from ${JSON.stringify(import.meta.resolve('./revision-store.ts'))};
      console.log(parseRevisions('f', readFileSync(${JSON.stringify(join(folder, NAME))})).list.length);`;
    const flags = ['--max-old-space-size=200', '--input-type=module', '--eval', script];
    expect((await promisify(execFile)(process.execPath, flags)).stdout).toBe('16\n');
  });
});
