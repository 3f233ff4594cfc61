import { TimeSlicer } from '@sluice/protocol/time-slicer';
import { describe, expect, test } from 'vitest';
import { DEFAULT_NAMESPACE, type Entry, type KnownCatalog, type Labels, TEMPLATE_LABEL } from './entries.ts';
import { EntryIndex } from './entry-index.ts';
import { catalog, view } from './fixtures/upstreams.ts';
import type { CatalogView } from './list.ts';
import { render } from './serialize.ts';
import { runSteps } from './steps.ts';

interface Made {
  readonly kind?: Entry['kind'];
  readonly forward?: string;
  readonly upstreamKey?: string;
  readonly position?: number;
  readonly labels?: Labels;
  readonly variants?: readonly { json: string; catalogs: readonly string[] | undefined }[];
}

function entry(key: string, registrationId: number, made: Made = {}): Entry {
  const { kind = 'tool', forward, upstreamKey = key, position = 0, labels = {} } = made;
  const variants = made.variants ?? [{ json: `{"name":"${upstreamKey}"}`, catalogs: undefined }];
  const base = { kind, namespace: DEFAULT_NAMESPACE, key, name: key, registrationId, position, labels, members: {} };
  const discovered = forward === undefined ? undefined : { forward, upstreamKey, variants, overrides: {} };
  return render({ ...base, discovered, definition: {} });
}

function indexWith(...entries: readonly Entry[]): EntryIndex {
  const draft = new EntryIndex().copy();
  for (const one of entries) draft.put(one);
  return runSteps(draft.publishInSteps());
}

function changed(before: EntryIndex, change: (draft: ReturnType<EntryIndex['copy']>) => void): EntryIndex {
  const draft = before.copy();
  change(draft);
  return runSteps(draft.publishInSteps());
}

const textOf = (list: { json: string | Buffer }): string => list.json.toString();

describe('order', () => {
  test("is by registration, then in the upstream's list order, regardless of the order of insertion", () => {
    const made = indexWith(
      entry('own-late', 9),
      entry('b2', 5, { forward: 'b', position: 1 }),
      entry('a1', 7, { forward: 'a', position: 0 }),
      entry('b1', 5, { forward: 'b', position: 0 }),
      entry('own-early', 1),
    );
    expect(made.entries.map(({ key }) => key)).toEqual(['own-early', 'b1', 'b2', 'a1', 'own-late']);
  });

  test('is the same after few and many changes', () => {
    const earlier = indexWith(...[5, 1, 4].map((id) => entry(`e${id}`, id)), entry('b', 2, { forward: 'b' }));
    const keys = ({ owners }: EntryIndex) => owners.map(({ key }) => key);
    expect(keys(earlier)).toEqual(['e1', 'b', 'e4', 'e5']);
    const added = changed(earlier, (draft) => draft.put(entry('e3', 3)));
    const removed = changed(added, (draft) => draft.remove(entry('b', 2, { forward: 'b' })));
    const replaced = changed(removed, (draft) => draft.put(entry('e1', 9)));
    expect(keys(replaced)).toEqual(['e3', 'e4', 'e5', 'e1']);
    expect(replaced.owners.at(-1)).toBe(replaced.owner('e1'));
    expect(changed(replaced, () => undefined).owners).toEqual(replaced.owners);
    const many = changed(replaced, (draft) => {
      for (let id = 1_000; id < 3_000; id++) draft.put(entry(`e${id}`, id));
    });
    expect(keys(many).slice(0, 6)).toEqual(['e3', 'e4', 'e5', 'e1', 'e1000', 'e1001']);
    expect(keys(many)).toHaveLength(2_004);
  });

  test('puts the templates of a forward behind its resources', () => {
    const template = { kind: 'resource', forward: 'a', labels: { [TEMPLATE_LABEL]: 'true' } } as const;
    const made = indexWith(
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

  test('stays with the first holder, also when an older source claims it', () => {
    const made = indexWith(late, early);
    expect(made.served('x')).toBe(late);
    expect(made.entries).toEqual([late]);
    expect(made.shadowed).toEqual([early]);
  });

  test('passes to the oldest remaining claimant, and is finally free', () => {
    let made = indexWith(own, late, early, middle);
    const holders = [made.served('x')];
    for (const gone of [own, early, middle, late]) {
      made = changed(made, (draft) => draft.remove(gone));
      holders.push(made.served('x'));
    }
    expect(holders).toEqual([own, early, middle, late, undefined]);
    expect(made.entries).toEqual([]);
  });

  test('is preserved when a claimant is removed or the served entry changes', () => {
    const renewed = { ...late, position: 7 };
    const made = changed(indexWith(late, early, middle), (draft) => {
      draft.remove(early);
      draft.put(renewed);
    });
    expect(made.candidates('x')).toEqual([renewed, middle]);
  });

  test('can be claimed twice by one forward: a renamed entry precedes a later discovered one of that name', () => {
    const renamed = entry('x', 1, { forward: 'early', upstreamKey: 'a', position: 5 });
    const found = entry('x', 1, { forward: 'early', upstreamKey: 'x', position: 0 });
    const made = indexWith(renamed, found);
    expect(made.served('x')).toBe(renamed);
    expect(changed(made, (draft) => draft.remove(found)).candidates('x')).toEqual([renamed]);
    expect(changed(made, (draft) => draft.remove(renamed)).candidates('x')).toEqual([found]);
  });

  test('is counted for each of its forwards', () => {
    const made = indexWith(late, early, own, entry('y', 1, { forward: 'early' }));
    expect([...made.counts]).toEqual(
      expect.arrayContaining([
        ['late', 1],
        ['early', 2],
      ]),
    );
    expect(made.counts.size).toBe(2);
  });
});

test('a change of a copy does not affect the index that it was copied from', () => {
  const stored = entry('kept', 1);
  const before = indexWith(stored, entry('gone', 2));
  const list = before.lists.get(
    view(() => []),
    'tools/list',
  );
  const after = changed(before, (draft) => {
    draft.remove(entry('gone', 2));
    draft.put(entry('new', 3));
    draft.put({ ...stored, position: 4 });
  });
  expect(before.entries.map(({ key }) => key)).toEqual(['kept', 'gone']);
  expect(before.served('kept')).toBe(stored);
  expect(
    before.lists.get(
      view(() => []),
      'tools/list',
    ),
  ).toBe(list);
  expect(after.entries.map(({ key }) => key)).toEqual(['kept', 'new']);
});

describe('prebuilt lists', () => {
  const both = { json: '{"name":"both"}', catalogs: undefined };
  const poor = { json: '{"name":"v","poor":1.0}', catalogs: ['legacy:{}'] };
  const rich = { json: '{"name":"v","rich":1.0}', catalogs: ['legacy:rich'] };
  const made = indexWith(
    entry('both', 1, { forward: 'f', variants: [both] }),
    entry('v', 1, { forward: 'f', position: 1, variants: [poor, rich] }),
    entry('only-rich', 1, {
      forward: 'f',
      position: 2,
      variants: [{ json: '{"name":"only-rich"}', catalogs: ['legacy:rich'] }],
    }),
    entry('own', 2),
  );
  const known: readonly KnownCatalog[] = [catalog(), catalog({ key: 'legacy:rich' })];

  test("contain the catalog entries of each view, in the upstream's text", () => {
    const own = '{"name":"own","inputSchema":{"type":"object"}}';
    expect(
      textOf(
        made.lists.get(
          view(() => known),
          'tools/list',
        ),
      ),
    ).toBe(`tools/list [${both.json},${poor.json},${own}] 0 public`);
    expect(
      textOf(
        made.lists.get(
          view(() => known, 'legacy:rich'),
          'tools/list',
        ),
      ),
    ).toBe(`tools/list [${both.json},${rich.json},{"name":"only-rich"},${own}] 0 public`);
  });

  test('serve the first variant where the forward has no catalog for the client', () => {
    expect(
      textOf(
        made.lists.get(
          view(() => [], 'modern:{}'),
          'tools/list',
        ),
      ),
    ).toContain(poor.json);
  });

  test('are built once per view and method', () => {
    const built = indexWith(entry('a', 1), entry('r', 2, { kind: 'resource' }));
    let wraps = 0;
    const counting = (key: string): CatalogView => ({
      ...view(() => []),
      key,
      wrap: (_method, list) => `${key} ${list} ${wraps++}`,
    });
    const first = built.lists.get(counting('one'), 'tools/list');
    expect(built.lists.get(counting('one'), 'tools/list')).toBe(first);
    expect(built.lists.get(counting('two'), 'tools/list')).not.toBe(first);
    expect(built.lists.get(counting('one'), 'resources/list')).not.toBe(first);
    expect(wraps).toBe(3);
  });

  test.each([
    ['short', 1],
    ['long', 2_000],
  ])('%s ones with equal text for many views are stored once', (_length, count) => {
    const built = indexWith(...Array.from({ length: count }, (_, at) => entry(`tool-with-a-long-name-${at}`, at + 1)));
    const same = (key: string) =>
      built.lists.get({ ...view(() => []), key, wrap: (_method, list) => list }, 'tools/list');
    const first = same('1');
    for (let number = 2; number <= 50; number++) expect(same(`${number}`)).toBe(first);
  });

  test('are limited in number: clients choose their capabilities', () => {
    const built = indexWith(entry('a', 1));
    let wraps = 0;
    const own = (key: string): CatalogView => ({
      ...view(() => []),
      key,
      wrap: () => {
        wraps++;
        return key;
      },
    });
    for (let number = 0; number < 1_000; number++) built.lists.get(own(`${number}`), 'tools/list');
    expect(wraps).toBe(1_000);
    // Some of the first are evicted, and are rebuilt correctly.
    expect(textOf(built.lists.get(own('0'), 'tools/list'))).toBe('0');
    expect(wraps).toBe(1_001);
  });

  test('templates and resources are separate lists', () => {
    const built = indexWith(
      entry('r:{x}', 1, { kind: 'resource', labels: { [TEMPLATE_LABEL]: 'true' } }),
      entry('r:1', 2, { kind: 'resource' }),
    );
    expect(
      textOf(
        built.lists.get(
          view(() => []),
          'resources/list',
        ),
      ),
    ).toContain('[{"uri":"r:1","name":"r:1"}]');
    expect(
      textOf(
        built.lists.get(
          view(() => []),
          'resources/templates/list',
        ),
      ),
    ).toContain('[{"uriTemplate":"r:{x}","name":"r:{x}"}]');
  });

  test('contain each item as the view renders it', () => {
    const built = indexWith(entry('a', 1, { forward: 'f' }), entry('own', 2));
    const shouting = { ...view(() => []), item: (method: string, json: string) => `${method} ${json.toUpperCase()}` };
    expect(textOf(built.lists.get(shouting, 'tools/list'))).toContain(
      '[tools/list {"NAME":"A"},tools/list {"NAME":"OWN","INPUTSCHEMA":{"TYPE":"OBJECT"}}]',
    );
  });

  test('carry the least time and the narrower scope of the forwards in them', () => {
    const hints = (ttlMs: number, cacheScope: 'public' | 'private') => [
      catalog({ key: 'modern:{}', cache: { 'tools/list': { ttlMs, cacheScope } } }),
    ];
    const by: Record<string, readonly KnownCatalog[]> = { a: hints(9_000, 'private'), b: hints(5_000, 'public') };
    const seen: CatalogView = { ...view(() => []), choose: (forward) => by[forward]?.[0] };
    const built = indexWith(entry('a', 1, { forward: 'a' }), entry('b', 2, { forward: 'b' }));
    expect(textOf(built.lists.get(seen, 'tools/list'))).toMatch(/ 5000 private$/);
    expect(textOf(indexWith(entry('b', 2, { forward: 'b' })).lists.get(seen, 'tools/list'))).toMatch(/ 5000 public$/);
    expect(textOf(indexWith(entry('b', 2, { forward: 'b' }), entry('own', 3)).lists.get(seen, 'tools/list'))).toMatch(
      / 0 public$/,
    );
  });

  test('contain their length in bytes if it differs from that in characters', () => {
    const list = indexWith(entry('é𝄞', 1)).lists.get(
      view(() => []),
      'tools/list',
    );
    expect(list.bytes).toBe(Buffer.byteLength(textOf(list)));
    expect(list.bytes).toBeGreaterThan(textOf(list).length);
  });
});

test('a long list is built in slices, once for all who ask, and equals one that is built at once', async () => {
  const made = indexWith(...Array.from({ length: 2_500 }, (_, position) => entry(`é${position}`, 1, { position })));
  const slicer = new TimeSlicer();
  const anyone = view(() => []);
  const long = made.lists.getInSlices(anyone, 'tools/list', slicer);
  expect(long).toBeInstanceOf(Promise);
  expect(made.lists.getInSlices(anyone, 'tools/list', slicer)).toBe(long);
  const built = await long;
  expect(textOf(built)).toBe(
    anyone.wrap('tools/list', `[${made.entries.map(({ rendered }) => rendered[0]?.json)}]`, {
      ttlMs: 0,
      cacheScope: 'public',
    }),
  );
  expect(built.bytes).toBe(Buffer.byteLength(built.json));
  expect(made.lists.getInSlices(anyone, 'tools/list', slicer)).toBe(built);
  expect(made.lists.get(anyone, 'tools/list')).toBe(built);
});

test('a long list of some keys is built in slices, and is private', async () => {
  const made = indexWith(...Array.from({ length: 2_500 }, (_, position) => entry(`k${position}`, 1, { position })));
  const slicer = new TimeSlicer();
  const anyone = view(() => []);
  const keys = (count: number) => new Set(made.entries.slice(0, count).map(({ key }) => key));
  const long = made.lists.limitedTo(keys(2_000)).getInSlices(anyone, 'tools/list', slicer);
  expect(long).toBeInstanceOf(Promise);
  const texts = made.entries.slice(0, 2_000).map(({ rendered }) => rendered[0]?.json);
  expect(textOf(await long)).toBe(anyone.wrap('tools/list', `[${texts}]`, { ttlMs: 0, cacheScope: 'private' }));
  expect(made.lists.limitedTo(keys(10)).getInSlices(anyone, 'tools/list', slicer)).not.toBeInstanceOf(Promise);
});
