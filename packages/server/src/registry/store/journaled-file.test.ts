import { crc32 } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { forEachInSteps, runSteps } from '../steps.ts';
import { ByteRange } from './byte-range.ts';
import { tool, withoutTool } from './fixtures/ledger.ts';
import { RecordedLog } from './fixtures/recorded-log.ts';
import { VolatileFiles } from './fixtures/volatile-files.ts';
import { changesLine, readOperations } from './journal-line.ts';
import { ChecksummedLog, CorruptFileError, JournaledFile, jsonArray, readChecksummedLines } from './journaled-file.ts';
import type { RecordedChange } from './store.ts';

const FILE = 'registry.journal.1';

/** The bytes of a journal with one line per commit. */
async function written(...commits: RecordedChange[][]): Promise<Buffer> {
  const files = new VolatileFiles();
  const log = new ChecksummedLog(files, `/folder/${FILE}`);
  for (const changes of commits) await log.append(changesLine(changes) ?? []);
  return files.read(`/folder/${FILE}`);
}

function read(bytes: Buffer): { commits: RecordedChange[][]; torn: number } {
  const commits: RecordedChange[][] = [];
  const torn = runSteps(
    readChecksummedLines(FILE, ByteRange.of(bytes), function* (line, offset) {
      const found = yield* readOperations(line, FILE, offset);
      commits.push(
        Array.from(found, ([op, section, id, json]): RecordedChange => {
          if (op === 'put') return { section, id, json };
          if (op === 'remove') return { section, id, json: null };
          throw new Error(`unexpected operation ${op}`);
        }),
      );
    }),
  );
  return { commits, torn };
}

describe('a journal', () => {
  it('returns every commit exactly as written', async () => {
    const json = '{"name":"☕\\ud800","n":9223372036854775807,\n"x":1.0}';
    const big: RecordedChange = { section: 'tools', id: '☕', json };
    const commits = [[big], [withoutTool('a\nb'), tool('c')], [tool('d')]];
    expect(read(await written(...commits))).toEqual({ commits, torn: 0 });
  });

  it('keeps a large commit intact although it is written in chunks', async () => {
    const commit = Array.from({ length: 5_000 }, (_, index) => tool(`tool ${index}`, { text: 'x'.repeat(200) }));
    expect(read(await written(commit, [tool('last')])).commits).toEqual([commit, [tool('last')]]);
  });

  it('drops an incomplete write at its end, wherever it stopped', async () => {
    const whole = await written([tool('a')], [tool('b')]);
    const complete = (await written([tool('a')])).length;
    for (let length = complete; length < whole.length; length++) {
      expect(read(whole.subarray(0, length))).toEqual({ commits: [[tool('a')]], torn: length - complete });
    }
  });

  it('drops an end with blocks that never reached the disk', async () => {
    const whole = await written([tool('a')], [tool('b', { text: 'x'.repeat(500) })]);
    whole.fill(0, whole.length - 400, whole.length - 100);
    expect(read(whole).commits).toEqual([[tool('a')]]);
  });

  it('is corrupt when intact lines follow a broken one', async () => {
    const whole = await written([tool('a')], [tool('b')], [tool('c')]);
    const at = whole.indexOf('"b') + 1;
    whole[at] = 'x'.charCodeAt(0);
    expect(() => read(whole)).toThrow(CorruptFileError);
  });

  it.each(['{}', '[["put","tools","a"]]', '[["put","tools","a",{}]]', '[["rename","tools","a","b"]]', '[', '[1]'])(
    'is corrupt when a line with a valid checksum contains %s',
    (body) => {
      const line = Buffer.from(`${body}\t${crc32(body).toString(16).padStart(8, '0')}\n`);
      expect(() => read(line)).toThrow('has an unknown record at byte 0');
    },
  );

  it('ignores files with other names', async () => {
    const files = new VolatileFiles();
    for (const name of [
      'registry.journal.0',
      'registry.journal.1.corrupt-5',
      'registry.journal.x',
      'other.journal.1',
    ]) {
      const file = await files.open(`/folder/${name}`, 'w');
      await file.write(Buffer.from('not a journal'), 0);
      await file.sync();
    }
    await new ChecksummedLog(files, '/folder/registry.journal.20').append(['"x"']);
    const log = new RecordedLog();
    const names = { snapshotName: 'registry.json', journalName: 'registry.journal' };
    const texts: string[] = [];
    await new JournaledFile({ files, folder: '/folder', ...names, log }).replay(undefined, (line) =>
      forEachInSteps([line.toString()], (text) => texts.push(text)),
    );
    expect(texts).toEqual(['"x"']);
  });
});

it.each([[[]], [['1']], [['1', '{"a":2}']]])('joins %j to a JSON array', (items) => {
  expect([...jsonArray(items)].join('')).toBe(`[${items.join(',')}]`);
});
