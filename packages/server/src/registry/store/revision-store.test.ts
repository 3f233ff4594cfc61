import { describe, expect, it } from 'vitest';
import { folderWith } from '../../mcp/sessions/fixtures/folder-with.ts';
import { EVALUATOR_REVISIONS } from '../../policy/evaluator-revisions.ts';
import { evaluatorDefinition } from '../../policy/fixtures/evaluator-definition.ts';
import { FileLog } from './file-log.ts';
import { systemClock } from './files.ts';
import { recordsOfLog, storedChanges } from './fixtures/changes.ts';
import { RecordedLog } from './fixtures/recorded-log.ts';
import { CRASHES, type Fault, VolatileFiles } from './fixtures/volatile-files.ts';
import { memoryLog, type RecordLog } from './record-log.ts';
import { LogRevisionStore, type RevisionStore, revisionRecords } from './revision-store.ts';
import {
  addActive,
  addRejected,
  NO_REVISIONS,
  type RevisionInput,
  type Revisions,
  serializeContent,
  serializeRevision,
} from './revisions.ts';
import { ReadOnlyStoreError, StoreError } from './store.ts';

const NAME = 'records.snapshot';
const NOW = 1_767_323_045_678;

/** A store in a folder, as a new process opens it. */
async function openLog(files: VolatileFiles, log = new RecordedLog(), recover = false): Promise<FileLog> {
  return await FileLog.open({ folder: '/registry', files, recover, log, clock: { ...systemClock(), now: () => NOW } });
}

async function store(files: VolatileFiles, log?: RecordedLog, recover?: boolean): Promise<RevisionStore> {
  return new LogRevisionStore(await openLog(files, log, recover), EVALUATOR_REVISIONS);
}

/** Loads the revisions in a folder. */
async function loaded(files: VolatileFiles, log?: RecordedLog, recover?: boolean): Promise<Revisions> {
  return await (await store(files, log, recover)).load();
}

function submission(name: string): RevisionInput {
  const at = '2026-01-02T03:04:05.678Z';
  return { content: serializeContent([evaluatorDefinition(name)]), origin: 'api', actor: 'ann', at };
}

const FIRST = addActive(NO_REVISIONS, submission('a'), []);
const SECOND = addRejected(addActive(FIRST, submission('b'), ['b']), submission('c'), 'because');

async function failureOf(promise: Promise<unknown>): Promise<StoreError> {
  const error = await promise.then(String, (reason: unknown) => reason);
  if (!(error instanceof StoreError)) throw new Error(`no StoreError but ${String(error)}`);
  return error;
}

describe('revisions', () => {
  it('are none before there is a file', async () => {
    expect(await loaded(new VolatileFiles())).toEqual(NO_REVISIONS);
  });

  it('are read as they were saved', async () => {
    const files = new VolatileFiles();
    const first = await store(files);
    await first.load();
    await first.save(FIRST);
    expect(await loaded(files.after('killed'))).toEqual(FIRST);
    await first.save(SECOND);
    expect(await loaded(files.after('killed'))).toEqual(SECOND);
  });

  it('have the original notation of numbers in a schema', async () => {
    const files = new VolatileFiles();
    const one = evaluatorDefinition('a');
    const llm = { ...one.llm, result_schema: { maximum: JSON.rawJSON('9007199254740993') } };
    const saving = await store(files);
    await saving.load();
    await saving.save(addActive(NO_REVISIONS, { ...submission(''), content: serializeContent([{ ...one, llm }]) }, []));
    expect((await loaded(files)).list[0]?.contentJson).toContain('"maximum":9007199254740993');
    expect(files.dump()[NAME]).toContain('\\"maximum\\":9007199254740993');
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
        const saving = await store(files);
        await saving.load();
        await saving.save(FIRST);
        count = 0;
        await saving.save(SECOND);
        saved = left === undefined;
        const found = await loaded(left ?? files.after(crash));
        if (saved) expect(found, `${crash} after all`).toEqual(SECOND);
        else expect([FIRST, SECOND], `${crash} at step ${steps}`).toContainEqual(found);
        if (saved) break;
      }
    }
  });

  it.each(['write', 'datasync'])(
    'that could not be saved because of %s are not there after a restart, and can be saved again',
    async (operation) => {
      let failures = 0;
      const fault: Fault = (at) => (failures > 0 && at === operation && failures-- > 0 ? 'EIO' : undefined);
      const files = await folderWith({}, fault);
      const saving = await store(files);
      await saving.load();
      await saving.save(FIRST);
      failures = 1;
      const { message } = await failureOf(saving.save(SECOND));
      expect(message).toMatch(/^\/registry\/records\.journal\.1 could not be written: EIO/);
      for (const crash of CRASHES) expect(await loaded(files.after(crash)), crash).toEqual(FIRST);
      await saving.save(SECOND);
      expect(await loaded(files.after('killed'))).toEqual(SECOND);
    },
  );
});

/** The records of {@link SECOND} by id, of which some have another text. */
function spoilt(changes: Readonly<Record<string, string | undefined>>): Record<string, string | undefined> {
  const texts = SECOND.list.map(
    (revision) => [String(revision.id), serializeRevision(revision, EVALUATOR_REVISIONS)] as const,
  );
  return { ...Object.fromEntries(texts), state: '{"active_id":2,"next_id":4}', ...changes };
}

/** A folder with these records, and one of another kind. */
async function folderOf(records: Readonly<Record<string, string | undefined>>): Promise<VolatileFiles> {
  const files = new VolatileFiles();
  const log = await openLog(files);
  const puts = Object.entries(records).flatMap(([id, json]) =>
    json === undefined ? [] : [{ section: 'evaluator_revisions', id, json } as const],
  );
  const other = { section: 'other', id: 'a', json: '{}' } as const;
  await log.commit({ changes: [...puts, other], publish: () => undefined });
  await log.close();
  return files;
}

const SECRET = 'sk-S3CRET';
const inline = { ...evaluatorDefinition('a'), llm: { ...evaluatorDefinition('a').llm, operation: SECRET } };
const second = (changes: object) => ({ 2: JSON.stringify({ ...JSON.parse(spoilt({})['2'] ?? ''), ...changes }) });

describe.each<[string, Readonly<Record<string, string>>]>([
  ['half of a revision', { 2: spoilt({})['2']?.slice(0, -10) ?? '' }],
  ['text that is not JSON', { 2: `{"api_key": ${SECRET}}` }],
  ['another value', { 2: '[]' }],
  ['an invalid evaluator', second({ evaluators: [inline] })],
  ['evaluators that are not a list', second({ evaluators: {} })],
  ['a revision without evaluators', second({ evaluators: undefined })],
  ['evaluators that are not JSON', { 2: spoilt({})['2']?.replace('"evaluators":[', `"evaluators":[${SECRET},`) ?? '' }],
  ['a revision under another id', { 9: spoilt({})['1'] ?? '' }],
  ['an unknown active_id', { state: '{"active_id":9,"next_id":10}' }],
  [
    'an unknown active_id and no active revision',
    { ...second({ status: 'superseded' }), state: '{"active_id":9,"next_id":10}' },
  ],
  ['an active revision without active_id', { state: '{"active_id":null,"next_id":4}' }],
  ['an active_id of another status', { state: '{"active_id":1,"next_id":4}' }],
  ['a next_id that is in use', { state: '{"active_id":2,"next_id":3}' }],
  ['a state that is not valid', { state: '{"next_id":4}' }],
])('records with %s', (_what, changes) => {
  it('abort startup with one line that names the file and quotes nothing of it', async () => {
    const files = await folderOf(spoilt(changes));
    const { message } = await failureOf(loaded(files));
    expect(message).toMatch(/^\/registry\/records\.snapshot .*SERVICE_PERSIST_RECOVER=rename/);
    expect(message).not.toMatch(/\n|S3CRET/);
    expect(Object.keys(files.dump())).toEqual([NAME]);
  });

  it('are set aside with SERVICE_PERSIST_RECOVER=rename and an error in the log, without the other records', async () => {
    const files = await folderOf(spoilt(changes));
    const log = new RecordedLog();
    const before = files.dump()[NAME];
    const records = await openLog(files, log, true);
    expect(await new LogRevisionStore(records, EVALUATOR_REVISIONS).load()).toEqual(NO_REVISIONS);
    expect(log.lines).toEqual([
      expect.stringMatching(
        /^error \/registry\/records\.snapshot has evaluator_actions, evaluator_revisions that cannot/,
      ),
      `error copied corrupt file ${NAME} to ${NAME}.corrupt-${NOW}; starting without them`,
    ]);
    for (const left of [files.after('lost'), files]) {
      if (left === files) await records.close();
      expect(left.dump()[`${NAME}.corrupt-${NOW}`]).toBe(before);
      expect(await loaded(left)).toEqual(NO_REVISIONS);
      const others = await recordsOfLog(await FileLog.read({ folder: '/registry', files: left, log }), 'other');
      expect(others).toHaveLength(1);
    }
  });
});

it('the error of an invalid evaluator has its path', async () => {
  const { message } = await failureOf(loaded(await folderOf(spoilt(second({ evaluators: [inline] })))));
  expect(message).toContain('revision 2 is not valid: evaluators.0.llm.operation ');
});

it('an unreadable file aborts startup even then', async () => {
  const files = await folderOf(spoilt({}));
  files.readInParts = () => Promise.reject(new Error('EIO: a bad sector'));
  const { message } = await failureOf(loaded(files, new RecordedLog(), true));
  expect(message).toBe('SERVICE_PERSIST_PATH /registry cannot be read: EIO: a bad sector');
  expect(Object.keys(files.dump())).toEqual([NAME]);
});

it('a file without revisions is valid', async () => {
  const files = await folderOf({ state: '{"active_id":null,"next_id":7,"more":1}' });
  expect(await loaded(files)).toEqual({ list: [], activeId: undefined, nextId: 7 } satisfies Revisions);
});

it('a revision with indentation, unknown members and escapes is read', async () => {
  const more = second({ more: [{ evaluators: 1 }] })['2'];
  const indented = JSON.stringify(JSON.parse(more), undefined, 2).replace('"evaluators"', '"evaluat\\u006frs"');
  expect(indented).toContain('"evaluat\\u006frs"');
  expect(await loaded(await folderOf(spoilt({ 2: indented })))).toEqual(SECOND);
});

it('revisions of a later release leave the present ones, which then cannot be changed here', async () => {
  const log: RecordLog = {
    ...memoryLog(),
    isShared: true,
    readRecord: (_section, json, read) => {
      try {
        return read(json);
      } catch {
        return undefined;
      }
    },
  };
  const replica = new LogRevisionStore(log, EVALUATOR_REVISIONS);
  await replica.load();
  await replica.save(FIRST);
  const adopted: (Revisions | undefined)[] = [];
  replica.newer.subscribe(({ revisions }) => adopted.push(revisions));
  const unknown = revisionRecords(SECOND, EVALUATOR_REVISIONS).map(({ json, ...put }) => ({
    ...put,
    json: json.replace('"status":"rejected"', '"status":"unknown"'),
  }));
  await replica.apply(storedChanges(unknown));
  expect(adopted).toEqual([undefined]);
  await expect(replica.save(SECOND)).rejects.toThrow(ReadOnlyStoreError);
  // Another replica of that release has repaired it.
  await replica.apply(storedChanges(revisionRecords(SECOND, EVALUATOR_REVISIONS)));
  expect(adopted).toEqual([undefined, SECOND]);
  await replica.save(FIRST);
});
