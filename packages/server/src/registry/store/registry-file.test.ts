import { describe, expect, it } from 'vitest';
import { runSteps } from '../steps.ts';
import { ByteRange } from './byte-range.ts';
import { type Entries, noEntries } from './fixtures/changes.ts';
import { CorruptFileError } from './journaled-file.ts';
import { REGISTRY_FORMAT } from './registry-file.ts';
import { readSnapshot } from './registry-reader.ts';
import { type RecordedPut, SECTIONS, StoreError, UNKNOWN_MEMBERS } from './store.ts';

function read(text: string) {
  const { records, generation } = runSteps(readSnapshot(ByteRange.of(Buffer.from(text))));
  const textsOf = (section: string) => Array.from(records.get(section) ?? [], ({ json }) => json);
  const entries = noEntries();
  for (const section of SECTIONS) entries[section] = textsOf(section);
  return { entries, extras: textsOf(UNKNOWN_MEMBERS).map((json) => json.slice(1, -1)), generation };
}

/** The text of a file with these entries and members. */
function write(entries: Partial<Entries>, extras: readonly string[] = [], generation = 1): string {
  const put =
    (section: string) =>
    (json: string): RecordedPut => ({ section, id: '', json });
  const members = extras.map((text) => `{${text}}`).map(put(UNKNOWN_MEMBERS));
  const records = SECTIONS.flatMap((section) => (entries[section] ?? []).map(put(section)));
  return [...REGISTRY_FORMAT.write([records, members], generation)].join('');
}

describe('reading registry.json', () => {
  it('returns each entry with its exact text', () => {
    const odd = '{"name":"caf\\u00e9 ☕", "n":9223372036854775807, "x": 1.0e+2, "name":"twice" }';
    const { entries } = read(`{"version":1,"tools":[ ${odd} ,{}],"prompts":[]}`);
    expect(entries.tools).toEqual([odd, '{}']);
  });

  it('treats a missing array as empty, and a missing version as the first', () => {
    expect(read('{}')).toEqual({ entries: noEntries(), extras: [], generation: undefined });
    expect(read('{"version":1,"forwards":[{"name":"a"}]}').entries.forwards).toEqual(['{"name":"a"}']);
  });

  it('returns the written texts at any depth, and does not change them when they are written again', () => {
    const pretty = JSON.stringify({ name: 'ä', schema: { deep: [1, { x: 'a\n    b' }] } }, null, 2);
    const odd = '{\n\t"name": "tabs",\n"at": "the margin"\n}';
    const first = write({ tools: [pretty, odd] }, [], 7);
    expect(read(first).entries.tools).toEqual([pretty, odd]);
    expect(write(read(first).entries, [], 7)).toBe(first);
    expect(read(first).generation).toBe(7);
  });

  it('keeps unknown members with their exact text', () => {
    const extras = ['"x-größe" :  { "n": 1.0, "big": 12345678901234567890 }', '"caf\\u00e9":[\n    1\n  ]'];
    const found = read(`{"version":1,${extras[0]},"tools":[{"name":"ü"}],\n  ${extras[1]}}`);
    expect(found.extras).toEqual(extras);
    const text = write(found.entries, found.extras);
    expect(read(text).extras).toEqual(extras);
    expect(JSON.parse(text)).toMatchObject({ café: [1], 'x-größe': { n: 1 } });
  });

  it.each([
    ['nothing', ''],
    ['half a file', '{"version":1,"tools":[{"name":"a"}'],
    ['an array', '[]'],
    ['a section that is not an array', '{"tools":{}}'],
    ['an entry that is not an object', '{"tools":[1]}'],
    ['a broken entry', '{"tools":[{"name":"a"},{"name":}]}'],
    ['an entry cut short', '{"tools":[{"name":"a},{}]}'],
    ['two entries without a comma', '{"tools":[{}{}]}'],
    ['a number stuck to an entry', '{"tools":[{}.5]}'],
    ['two members without a comma', '{"tools":[] "prompts":[]}'],
    ['a trailing comma', '{"tools":[{},]}'],
    ['text behind the end', '{"tools":[]} x'],
    ['an empty place', '{"tools":[,{}]}'],
    ['a version that never was', '{"version":"1"}'],
    ['a journal that never was', '{"version":1,"journal":-1}'],
  ])('treats %s as corruption', (_what, text) => {
    expect(() => read(text)).toThrow(CorruptFileError);
  });

  it('treats bytes that are not UTF-8 as corruption', () => {
    expect(() => runSteps(readSnapshot(ByteRange.of(Buffer.from('{"x":"\xff"}', 'latin1'))))).toThrow(
      'is not valid UTF-8',
    );
  });

  it('rejects the version of a later release, regardless of its contents', () => {
    expect(() => read('{"version":2,"tools":{}}')).toThrow(StoreError);
  });
});

describe('writing registry.json', () => {
  it('is pretty-printed JSON with the version first and the sections in order', () => {
    const entry = JSON.stringify({ name: 'a', labels: {} }, null, 2);
    const text = write({ namespaces: [entry, entry] }, [], 3);
    const { namespaces: _, ...others } = noEntries();
    const same = { name: 'a', labels: {} };
    expect(JSON.stringify(JSON.parse(text))).toBe(
      JSON.stringify({ version: 1, namespaces: [same, same], ...others, journal: 3 }),
    );
    expect(text).toBe(`${JSON.stringify(JSON.parse(text), null, 2)}\n`);
  });

  it('is written in slices of at most a thousand entries, created one at a time', () => {
    let made = 0;
    function* tools(): Generator<RecordedPut> {
      for (; made < 2_500; made++) yield { section: 'tools', id: '', json: `{"name":"${made}"}` };
    }
    const slices = REGISTRY_FORMAT.write([tools()], 1);
    let text = '';
    let before = 0;
    for (const slice of slices) {
      expect(made - before).toBeLessThanOrEqual(1_001);
      before = made;
      text += slice;
    }
    expect(read(text).entries.tools).toHaveLength(2_500);
  });
});
