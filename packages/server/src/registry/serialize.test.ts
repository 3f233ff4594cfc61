import { type JsonObject, parseLossless } from '@sluice/protocol/json/parse';
import { describe, expect, test } from 'vitest';
import { DEFAULT_NAMESPACE, type Entry, type Kind } from './entries.ts';
import { entryJson, mcpName, render, restName } from './serialize.ts';
import { readEntry, storedEntry } from './stored.ts';

function object(json: string): JsonObject {
  return Object(parseLossless(json));
}

const HOME = { name: 'up', registrationId: 3, namespace: DEFAULT_NAMESPACE, prefix: '' };

interface Made {
  readonly key?: string;
  readonly name?: string;
  readonly labels?: Record<string, string>;
  readonly members?: string;
  readonly overrides?: string;
}

function discovered(kind: Kind, upstreamKey: string, json: string, made: Made = {}): Entry {
  const { key = upstreamKey, name = key, labels = {}, members = '{}', overrides = '{}' } = made;
  const base = {
    kind,
    namespace: DEFAULT_NAMESPACE,
    key,
    name,
    registrationId: 3,
    position: 2,
    labels,
    members: object(members),
  };
  return render({
    ...base,
    discovered: {
      forward: 'up',
      upstreamKey,
      variants: [{ json, catalogs: undefined }],
      overrides: object(overrides),
      ...(kind !== 'resource' && key !== upstreamKey && { renamed: true }),
    },
    definition: {},
  });
}

function manualEntry(kind: Kind, key: string, definition: string, made: Made = {}): Entry {
  const { name = key, labels = {}, members = '{}' } = made;
  const base = {
    kind,
    namespace: DEFAULT_NAMESPACE,
    key,
    name,
    registrationId: 4,
    position: 0,
    labels,
    members: object(members),
  };
  return render({ ...base, discovered: undefined, definition: object(definition) });
}

/** The exact text of one member. */
function shown(entry: Entry, member: string): string {
  return JSON.stringify(object(entryJson(entry))[member]);
}

describe('over REST', () => {
  test('a tool has the names and defaults of REST, and the exact text of its upstream', () => {
    const json =
      '{"name":"a","inputSchema":{"max":9223372036854775807},"outputSchema":{"x":1.0},"annotations":{"n":1e400}}';
    const members = '{"uri":"http://up.test/","toolType":"mcp-forward"}';
    expect(entryJson(discovered('tool', 'a', json, { members, labels: { l: '1' } }))).toBe(
      '{"name":"a","namespace":"default","input_schema":{"max":9223372036854775807},"output_schema":{"x":1.0},' +
        '"annotations":{"n":1e400},"uri":"http://up.test/","toolType":"mcp-forward","labels":{"l":"1"},"enabled":true,"forward":"up",' +
        '"description":""}',
    );
  });

  test("the registry's value is shown where an upstream sends a member of that name", () => {
    const json =
      '{"name":"a","uri":"theirs","toolType":"theirs","namespace":"theirs","labels":{"t":"1"},"enabled":true,"forward":"theirs","id":1,' +
      '"configurationURI":"theirs","secretsURI":"theirs","upstreamName":"theirs","shadowed":true}';
    const entry = discovered('tool', 'a', json, { members: '{"uri":"ours","toolType":"mcp-forward"}' });
    expect(entryJson(entry)).toBe(
      '{"name":"a","namespace":"default","uri":"ours","toolType":"mcp-forward","labels":{},"enabled":true,"forward":"up",' +
        '"description":"","input_schema":{}}',
    );
    expect(entry.rendered[0]?.json).toBe(json);
  });

  test('a member is shown that objects in JavaScript inherit', () => {
    const json = '{"name":"a","constructor":1.0,"toString":2.0,"__proto__":{"x":3.0}}';
    expect(entryJson(discovered('tool', 'a', json))).toContain(
      '"constructor":1.0,"toString":2.0,"__proto__":{"x":3.0}',
    );
    expect(entryJson(manualEntry('prompt', 'p', json))).toContain(
      '"constructor":1.0,"toString":2.0,"__proto__":{"x":3.0}',
    );
  });

  test("the upstream's name is shown where it differs, and that an entry is shadowed", () => {
    const renamed = discovered('tool', 'a', '{"name":"a"}', { key: 'z' });
    expect([shown(renamed, 'name'), shown(renamed, 'upstreamName')]).toEqual(['"z"', '"a"']);
    expect(shown(discovered('tool', 'a', '{"name":"a"}'), 'upstreamName')).toBeUndefined();
    expect(object(entryJson(renamed, { shadowed: true })).shadowed).toBe(true);
    expect(object(entryJson(renamed)).shadowed).toBeUndefined();
  });

  test('a resource has its uri as location, and neither uri nor uri template', () => {
    const entry = discovered('resource', 'x:{y}', '{"uriTemplate":"x:{y}","name":"r","size":1.0}', { name: 'r' });
    expect(entryJson(entry)).toBe(
      '{"name":"r","namespace":"default","size":1.0,"location":"x:{y}","labels":{},"enabled":true,"forward":"up","description":"","mimeType":""}',
    );
  });

  test('a prompt has its messages', () => {
    const entry = manualEntry('prompt', 'p', '{"arguments":[{"name":"a"}]}', {
      members: '{"messages":[{"role":"user","content":"{a}"}]}',
    });
    expect(entryJson(entry)).toBe(
      '{"name":"p","namespace":"default","arguments":[{"name":"a"}],"messages":[{"role":"user","content":"{a}"}],"labels":{},"enabled":true,"description":""}',
    );
    expect(entry.rendered[0]?.json).not.toContain('messages');
  });

  test('overrides are shown as served', () => {
    const entry = discovered('tool', 'a', '{"name":"a","description":"theirs","x":1}', {
      overrides: '{"description":"ours","x":null}',
    });
    expect(shown(entry, 'description')).toBe('"ours"');
    expect(shown(entry, 'x')).toBeUndefined();
  });

  test("the upstream's own values are shown on request, without the registry's members", () => {
    const json = '{"name":"a","uri":"theirs","description":"theirs","outputSchema":{"x":1.0},"upstream":2}';
    const entry = discovered('tool', 'a', json, { key: 'z', overrides: '{"description":"ours","outputSchema":null}' });
    const requested = object(entryJson(entry, { upstream: true }));
    expect(JSON.stringify(requested.upstream)).toBe(
      '{"description":"theirs","output_schema":{"x":1.0},"upstream":2,"input_schema":{}}',
    );
    expect(requested).toMatchObject({ name: 'z', description: 'ours' });
    expect(shown(entry, 'upstream')).toBe('2');
    const made = manualEntry('tool', 't', '{"upstream":3}');
    expect(object(entryJson(made, { upstream: true })).upstream).toBe(3);
  });

  test.each([
    ['tool', 'inputSchema', 'input_schema'],
    ['tool', 'outputSchema', 'output_schema'],
    ['tool', 'title', 'title'],
    ['resource', 'inputSchema', 'inputSchema'],
    ['tool', 'constructor', 'constructor'],
    ['tool', '__proto__', '__proto__'],
  ] as const)('of a %s, %s is called %s', (kind, mcp, rest) => {
    expect(restName(kind, mcp)).toBe(rest);
    expect(mcpName(kind, rest)).toBe(mcp);
  });
});

const ENTRIES: [string, Entry][] = [
  ['a discovered tool', discovered('tool', 'a', '{ "name":"a" , "n":1.0,\n"n":2.0,"big":9223372036854775807 }')],
  [
    'one renamed, moved and overridden',
    discovered('tool', 'a', '{"name":"a","x":1}', {
      key: 'z',
      labels: { mine: '1' },
      members: '{"uri":"u","toolType":"mcp-forward","id":"i"}',
      overrides: '{"x":null,"title":"\\u0000","__proto__":1.0}',
    }),
  ],
  [
    'one with every member that the registry has a use for',
    discovered(
      'tool',
      'a',
      '{"name":"a","source":1,"position":9,"upstream":2,"overrides":{"name":"b"},"catalogues":["c"],"offers":[{"upstream":{"name":"b"}}],"kept":4,"namespace":"ops","shadowed":true}',
    ),
  ],
  ['one whose keys are escaped', discovered('tool', 'a', '{"\\u006eame":"a","a\\nb":1,"\\\\":2}')],
  [
    'a template',
    discovered('resource', 'x:{y}', '{"uri":"not this","uriTemplate":"x:{y}","name":"r"}', {
      name: 'r',
      labels: { 'service.is_template': 'true' },
    }),
  ],
  [
    'a renamed resource',
    discovered('resource', 'x:1', '{"uri":"x:1","name":"r"}', { name: 'ours', overrides: '{"name":"ours"}' }),
  ],
  [
    'a discovered prompt',
    discovered('prompt', 'p', '{"name":"p","arguments":[]}', { members: '{"configurationURI":"u"}' }),
  ],
  [
    'a manual tool',
    manualEntry('tool', 't', '{"description":"","inputSchema":{"max":1.0},"x":[1e400,-0]}', {
      members: '{"uri":"u","toolType":"t","secretsURI":"s"}',
    }),
  ],
  [
    "one with members named like the file's own",
    manualEntry(
      'tool',
      't',
      '{"b":1,"source":"mine","upstream":{},"overrides":1,"catalogues":2,"offers":3,"position":4,"kept":5,"a":6}',
    ),
  ],
  ['one with a number for a source', manualEntry('tool', 't', '{"source":7}')],
  [
    'a manual resource',
    manualEntry('resource', 'x:1', '{"mimeType":"t"}', {
      name: 'r',
      members: '{"type":"t","params":[{"name":"a","value":"b"}]}',
    }),
  ],
  ['a manual prompt', manualEntry('prompt', 'p', '{"description":""}', { members: '{"messages":[],"id":"1"}' })],
];

describe.each(ENTRIES)('%s', (_what, entry) => {
  const read = (json: string) =>
    readEntry(
      entry.kind,
      json,
      () => HOME,
      () => -1,
    );

  test('is restored', () => {
    expect(storedEntry(entry)).not.toContain('\u0000');
    expect(read(storedEntry(entry))).toEqual({ entry, shadowed: false });
    expect(storedEntry(read(storedEntry(entry)).entry)).toBe(storedEntry(entry));
  });

  test('is restored as shadowed', () => {
    expect(read(storedEntry(entry, true))).toEqual({ entry, shadowed: true });
    expect(() => JSON.parse(storedEntry(entry, true))).not.toThrow();
  });

  test('is in the file as the management API shows it, and more', () => {
    const rest = new Map(Object.entries(object(entryJson(entry))));
    const file = new Map(Object.entries(object(storedEntry(entry))));
    // Members that are always shown may be missing in the file, which keeps its own members of those names.
    for (const [member, value] of rest) {
      const absent = value === '' || JSON.stringify(value) === '{}' || JSON.stringify(value) === '[]';
      if (['source', 'kept', 'upstream', 'overrides', 'position', 'catalogues', 'offers'].includes(member)) continue;
      if (!absent || file.has(member)) expect(JSON.stringify(file.get(member))).toBe(JSON.stringify(value));
    }
  });
});

test("variants of an upstream's object are restored with their exact text and their clients", () => {
  const [first, second] = ['{"name":"a", "\\u0078":1.0}', '{ "name":"a","1":1,"0":2,"n":1,"n":2 }'];
  const base = discovered('tool', 'a', first ?? '');
  const variants = [
    { json: first ?? '', catalogs: ['legacy:{"a":{}}', 'modern:{}'] },
    { json: second ?? '', catalogs: ['legacy:{}'] },
  ];
  const found = { forward: 'up', upstreamKey: 'a', variants, overrides: {} };
  const entry = render({ ...base, discovered: found });
  const read = readEntry(
    'tool',
    storedEntry(entry),
    () => HOME,
    () => -1,
  );
  expect(read.entry).toEqual(entry);
});
