import { crc32 } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { Journal, journalGeneration, journalName, readJournal } from './file-store.ts';
import { tool, withoutTool } from './fixtures/ledger.ts';
import { VolatileFiles } from './fixtures/volatile-files.ts';
import { CorruptFileError } from './journaled-file.ts';
import type { Change } from './store.ts';

const NAME = journalName(1);

async function written(...groups: Change[][][]): Promise<Buffer> {
  const files = new VolatileFiles();
  const journal = new Journal(files, '/folder', 1);
  for (const group of groups) await journal.append(group);
  return files.read(`/folder/${NAME}`);
}

describe('the journal', () => {
  it('gives back every commit exactly as it was', async () => {
    const big: Change = { op: 'put', section: 'tools', json: '{"name":"☕\\ud800","n":9223372036854775807,\n"x":1.0}' };
    const groups: Change[][][] = [[[big], [withoutTool('a\nb'), tool('c')]], [[]], [[tool('d')]]];
    expect(readJournal(NAME, await written(...groups))).toEqual({ commits: groups.flat(), torn: 0 });
  });

  it('keeps a huge commit whole though it is written in pieces', async () => {
    const commit = Array.from({ length: 5_000 }, (_, index) => tool(`tool ${index}`, { text: 'x'.repeat(200) }));
    expect(readJournal(NAME, await written([commit], [[tool('last')]])).commits).toEqual([commit, [tool('last')]]);
  });

  it('drops an unfinished write at its end, wherever it broke off', async () => {
    const whole = await written([[tool('a')]], [[tool('b')]]);
    const kept = (await written([[tool('a')]])).length;
    for (let length = kept; length < whole.length; length++) {
      const found = readJournal(NAME, whole.subarray(0, length));
      expect(found).toEqual({ commits: [[tool('a')]], torn: length - kept });
    }
  });

  it('drops an end of which some blocks never reached the disk', async () => {
    const whole = await written([[tool('a')]], [[tool('b', { text: 'x'.repeat(500) })]]);
    whole.fill(0, whole.length - 400, whole.length - 100);
    expect(readJournal(NAME, whole).commits).toEqual([[tool('a')]]);
  });

  it('takes a broken line before intact ones for damage', async () => {
    const whole = await written([[tool('a')]], [[tool('b')]], [[tool('c')]]);
    const at = whole.indexOf('"b') + 1;
    whole[at] = 'x'.charCodeAt(0);
    expect(() => readJournal(NAME, whole)).toThrow(CorruptFileError);
  });

  it.each([
    '{}',
    '[[{"op":"put","section":"tools"}]]',
    '[[{"op":"put","section":"shoes","json":"{}"}]]',
    '[[',
    '[[1]]',
  ])('takes a sealed line of %s for damage', (body) => {
    const line = Buffer.from(`${body}\t${crc32(body).toString(16).padStart(8, '0')}\n`);
    expect(() => readJournal(NAME, line)).toThrow('holds an unknown change at byte 0');
  });

  it('knows its files by name', () => {
    const names = ['registry.journal.1', 'registry.journal.20', 'registry.journal.0', 'registry.journal.1.corrupt-5'];
    expect(names.map(journalGeneration)).toEqual([1, 20, undefined, undefined]);
  });
});
