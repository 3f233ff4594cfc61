import { describe, expect, test } from 'vitest';
import { DEFAULT_NAMESPACE, type Entry, type KnownCatalogue, type Labels, TEMPLATE_LABEL } from './entries.ts';
import { catalogue, view } from './fixtures/upstreams.ts';
import { type CatalogueView, EntryIndex } from './index.ts';
import { render } from './serialize.ts';

interface Made {
  readonly kind?: Entry['kind'];
  readonly forward?: string;
  readonly upstreamKey?: string;
  readonly position?: number;
  readonly labels?: Labels;
  readonly offers?: readonly { json: string; catalogues: readonly string[] | undefined }[];
}

function entry(key: string, source: number, made: Made = {}): Entry {
  const { kind = 'tool', forward, upstreamKey = key, position = 0, labels = {} } = made;
  const offers = made.offers ?? [{ json: `{"name":"${upstreamKey}"}`, catalogues: undefined }];
  const base = { kind, namespace: DEFAULT_NAMESPACE, key, name: key, source, position, labels, members: {} };
  const discovered = forward === undefined ? undefined : { forward, upstreamKey, offers, overrides: {} };
  return render({ ...base, discovered, definition: {} });
}

function shelf(...entries: readonly Entry[]): EntryIndex {
  const draft = new EntryIndex().copy();
  for (const one of entries) draft.put(one);
  return draft.publish();
}

function changed(before: EntryIndex, change: (draft: ReturnType<EntryIndex['copy']>) => void): EntryIndex {
  const draft = before.copy();
  change(draft);
  return draft.publish();
}

const textOf = (list: { json: string | Buffer }): string => list.json.toString();

describe('order', () => {
  test('is by registration, then as the upstream lists them, whatever the order of putting', () => {
    const made = shelf(
      entry('own-late', 9),
      entry('b2', 5, { forward: 'b', position: 1 }),
      entry('a1', 7, { forward: 'a', position: 0 }),
      entry('b1', 5, { forward: 'b', position: 0 }),
      entry('own-early', 1),
    );
    expect(made.entries.map(({ key }) => key)).toEqual(['own-early', 'b1', 'b2', 'a1', 'own-late']);
  });

  test('puts the templates of a forward behind its resources', () => {
    const template = { kind: 'resource', forward: 'a', labels: { [TEMPLATE_LABEL]: 'true' } } as const;
    const made = shelf(
      entry('t:0', 1, { ...template, position: 0 }),
      entry('r:1', 1, { kind: 'resource', forward: 'a', position: 1 }),
      entry('r:0', 1, { kind: 'resource', forward: 'a', position: 0 }),
      entry('t:own', 2, { kind: 'resource', labels: { [TEMPLATE_LABEL]: 'true' } }),
    );
    expect(made.entries.map(({ key }) => key)).toEqual(['r:0', 'r:1', 't:0', 't:own']);
    expect(made.templates.map(({ key }) => key)).toEqual(['t:0', 't:own']);
  });
});

describe('a key that several claim', () => {
  const early = entry('x', 1, { forward: 'early' });
  const middle = entry('x', 2, { forward: 'middle' });
  const late = entry('x', 3, { forward: 'late' });
  const own = entry('x', 4);

  test('stays with the one who was there first, also when an older source comes to claim it', () => {
    const made = shelf(late, early);
    expect(made.get('x')).toBe(late);
    expect(made.entries).toEqual([late]);
    expect(made.shadowed).toEqual([early]);
  });

  test('goes to the oldest of those who wait, one after the other, and is gone in the end', () => {
    let made = shelf(own, late, early, middle);
    const holders = [made.get('x')];
    for (const gone of [own, early, middle, late]) {
      made = changed(made, (draft) => draft.remove(gone));
      holders.push(made.get('x'));
    }
    expect(holders).toEqual([own, early, middle, late, undefined]);
    expect(made.entries).toEqual([]);
  });

  test('is not lost by one who waits going away, nor by the holder changing', () => {
    const renewed = { ...late, position: 7 };
    const made = changed(shelf(late, early, middle), (draft) => {
      draft.remove(early);
      draft.put(renewed);
    });
    expect(made.claims('x')).toEqual([renewed, middle]);
  });

  test('may be claimed twice by one forward: a rename holds it against a later find of that name', () => {
    const renamed = entry('x', 1, { forward: 'early', upstreamKey: 'a', position: 5 });
    const found = entry('x', 1, { forward: 'early', upstreamKey: 'x', position: 0 });
    const made = shelf(renamed, found);
    expect(made.get('x')).toBe(renamed);
    expect(changed(made, (draft) => draft.remove(found)).claims('x')).toEqual([renamed]);
    expect(changed(made, (draft) => draft.remove(renamed)).claims('x')).toEqual([found]);
  });

  test('counts for each of its forwards', () => {
    const made = shelf(late, early, own, entry('y', 1, { forward: 'early' }));
    expect([...made.counts]).toEqual(
      expect.arrayContaining([
        ['late', 1],
        ['early', 2],
      ]),
    );
    expect(made.counts.size).toBe(2);
  });
});

test('a change of a copy is not seen by the shelf that it was made of', () => {
  const kept = entry('kept', 1);
  const before = shelf(kept, entry('gone', 2));
  const list = before.list(
    view(() => []),
    'tools/list',
  );
  const after = changed(before, (draft) => {
    draft.remove(entry('gone', 2));
    draft.put(entry('new', 3));
    draft.put({ ...kept, position: 4 });
  });
  expect(before.entries.map(({ key }) => key)).toEqual(['kept', 'gone']);
  expect(before.get('kept')).toBe(kept);
  expect(
    before.list(
      view(() => []),
      'tools/list',
    ),
  ).toBe(list);
  expect(after.entries.map(({ key }) => key)).toEqual(['kept', 'new']);
});

describe('prebuilt lists', () => {
  const both = { json: '{"name":"both"}', catalogues: undefined };
  const poor = { json: '{"name":"v","poor":1.0}', catalogues: ['legacy:{}'] };
  const rich = { json: '{"name":"v","rich":1.0}', catalogues: ['legacy:rich'] };
  const made = shelf(
    entry('both', 1, { forward: 'f', offers: [both] }),
    entry('v', 1, { forward: 'f', position: 1, offers: [poor, rich] }),
    entry('only-rich', 1, {
      forward: 'f',
      position: 2,
      offers: [{ json: '{"name":"only-rich"}', catalogues: ['legacy:rich'] }],
    }),
    entry('own', 2),
  );
  const known: readonly KnownCatalogue[] = [catalogue(), catalogue({ key: 'legacy:rich' })];

  test('hold for each view what its catalogue has, as the upstream spelled it', () => {
    const own = '{"name":"own","inputSchema":{"type":"object"}}';
    expect(
      textOf(
        made.list(
          view(() => known),
          'tools/list',
        ),
      ),
    ).toBe(`tools/list [${both.json},${poor.json},${own}] 0 public`);
    expect(
      textOf(
        made.list(
          view(() => known, 'legacy:rich'),
          'tools/list',
        ),
      ),
    ).toBe(`tools/list [${both.json},${rich.json},{"name":"only-rich"},${own}] 0 public`);
  });

  test('serve the first variant where the forward has no catalogue for the client', () => {
    expect(
      textOf(
        made.list(
          view(() => [], 'modern:{}'),
          'tools/list',
        ),
      ),
    ).toContain(poor.json);
  });

  test('are built once per view and method', () => {
    const built = shelf(entry('a', 1), entry('r', 2, { kind: 'resource' }));
    let wraps = 0;
    const counting = (key: string): CatalogueView => ({
      ...view(() => []),
      key,
      wrap: (_method, list) => `${key} ${list} ${wraps++}`,
    });
    const first = built.list(counting('one'), 'tools/list');
    expect(built.list(counting('one'), 'tools/list')).toBe(first);
    expect(built.list(counting('two'), 'tools/list')).not.toBe(first);
    expect(built.list(counting('one'), 'resources/list')).not.toBe(first);
    expect(wraps).toBe(3);
  });

  test.each([
    ['short', 1],
    ['long', 2_000],
  ])('%s ones that read the same for many views are kept once', (_length, count) => {
    const built = shelf(...Array.from({ length: count }, (_, at) => entry(`tool-with-a-long-name-${at}`, at + 1)));
    const same = (key: string) => built.list({ ...view(() => []), key, wrap: (_method, list) => list }, 'tools/list');
    const first = same('1');
    for (let number = 2; number <= 50; number++) expect(same(`${number}`)).toBe(first);
  });

  test('are bounded in number: clients choose what they declare', () => {
    const built = shelf(entry('a', 1));
    let wraps = 0;
    const own = (key: string): CatalogueView => ({
      ...view(() => []),
      key,
      wrap: () => {
        wraps++;
        return key;
      },
    });
    for (let number = 0; number < 1_000; number++) built.list(own(`${number}`), 'tools/list');
    expect(wraps).toBe(1_000);
    // Some of the first are not there any more, and come out right all the same.
    expect(textOf(built.list(own('0'), 'tools/list'))).toBe('0');
    expect(wraps).toBe(1_001);
  });

  test('templates and resources are lists of their own', () => {
    const built = shelf(
      entry('r:{x}', 1, { kind: 'resource', labels: { [TEMPLATE_LABEL]: 'true' } }),
      entry('r:1', 2, { kind: 'resource' }),
    );
    expect(
      textOf(
        built.list(
          view(() => []),
          'resources/list',
        ),
      ),
    ).toContain('[{"uri":"r:1","name":"r:1"}]');
    expect(
      textOf(
        built.list(
          view(() => []),
          'resources/templates/list',
        ),
      ),
    ).toContain('[{"uriTemplate":"r:{x}","name":"r:{x}"}]');
  });

  test('hold each item as the view gives it', () => {
    const built = shelf(entry('a', 1, { forward: 'f' }), entry('own', 2));
    const shouting = { ...view(() => []), item: (method: string, json: string) => `${method} ${json.toUpperCase()}` };
    expect(textOf(built.list(shouting, 'tools/list'))).toContain(
      '[tools/list {"NAME":"A"},tools/list {"NAME":"OWN","INPUTSCHEMA":{"TYPE":"OBJECT"}}]',
    );
  });

  test('carry the least time and the narrower scope of the forwards in them', () => {
    const hints = (ttlMs: number, cacheScope: 'public' | 'private') => [
      catalogue({ key: 'modern:{}', cache: { 'tools/list': { ttlMs, cacheScope } } }),
    ];
    const by: Record<string, readonly KnownCatalogue[]> = { a: hints(9_000, 'private'), b: hints(5_000, 'public') };
    const seen: CatalogueView = { ...view(() => []), choose: (forward) => by[forward]?.[0] };
    const built = shelf(entry('a', 1, { forward: 'a' }), entry('b', 2, { forward: 'b' }));
    expect(textOf(built.list(seen, 'tools/list'))).toMatch(/ 5000 private$/);
    expect(textOf(shelf(entry('b', 2, { forward: 'b' })).list(seen, 'tools/list'))).toMatch(/ 5000 public$/);
    expect(textOf(shelf(entry('b', 2, { forward: 'b' }), entry('own', 3)).list(seen, 'tools/list'))).toMatch(
      / 0 public$/,
    );
  });

  test('say how many bytes they have, where these are more than characters', () => {
    const list = shelf(entry('é𝄞', 1)).list(
      view(() => []),
      'tools/list',
    );
    expect(list.bytes).toBe(Buffer.byteLength(textOf(list)));
    expect(list.bytes).toBeGreaterThan(textOf(list).length);
  });
});
