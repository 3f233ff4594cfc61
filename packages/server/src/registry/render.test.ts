import { type JsonObject, parseLossless } from '@sluice/protocol/json/parse';
import { describe, expect, test } from 'vitest';
import { DEFAULT_NAMESPACE, type Entry, type Kind } from './entries.ts';
import { render } from './serialize.ts';

function object(json: string): JsonObject {
  return Object(parseLossless(json));
}

function discovered(
  kind: Kind,
  upstreamKey: string,
  json: string,
  change: { key?: string; overrides?: string } = {},
): Entry {
  const key = change.key ?? upstreamKey;
  const base = {
    kind,
    namespace: DEFAULT_NAMESPACE,
    key,
    name: key,
    registrationId: 1,
    position: 0,
    labels: {},
    members: {},
  };
  const overrides = object(change.overrides ?? '{}');
  const found = { forward: 'up', upstreamKey, variants: [{ json, catalogs: ['c'] }], overrides };
  return render({ ...base, discovered: found, definition: {} });
}

function manualEntry(kind: Kind, key: string, name: string, definition: string, labels = {}): string | undefined {
  const base = { kind, namespace: DEFAULT_NAMESPACE, key, name, registrationId: 1, position: 0, members: { id: 'x' } };
  return render({ ...base, labels, discovered: undefined, definition: object(definition) }).rendered[0]?.json;
}

describe('a discovered entry', () => {
  const odd = '{ "\\u0078" : 1.0,\r\n "name":"a", "name":"a", "__proto__":{"n":9223372036854775807},"toString":1e400 }';

  test("without overrides is the upstream's own text", () => {
    const entry = discovered('tool', 'a', odd);
    expect(entry.rendered).toEqual([{ json: odd, catalogs: ['c'] }]);
    expect(entry.rendered[0]).toBe(entry.discovered?.variants[0]);
  });

  test('under another name differs in its name alone', () => {
    expect(discovered('tool', 'a', odd, { key: 'z' }).rendered[0]?.json).toBe(
      '{"x":1.0,"name":"z","__proto__":{"n":9223372036854775807},"toString":1e400}',
    );
    expect(discovered('prompt', 'a', '{"title":"T","name":"a"}', { key: 'p.a' }).rendered[0]?.json).toBe(
      '{"title":"T","name":"p.a"}',
    );
  });

  test.each([
    ['sets', '{"b":2.0}', '{"name":"a","b":2.0,"c":[1.0]}'],
    ['adds', '{"d":1e400,"__proto__":1}', '{"name":"a","b":1,"c":[1.0],"d":1e400,"__proto__":1}'],
    ['removes', '{"b":null}', '{"name":"a","c":[1.0]}'],
    ['removes a missing member', '{"d":null}', '{"name":"a","b":1,"c":[1.0]}'],
    ['empties', '{"c":[],"b":""}', '{"name":"a","b":"","c":[]}'],
  ])('an override %s a member and leaves the others unchanged', (_what, overrides, expected) => {
    expect(discovered('tool', 'a', '{"name":"a","b":1,"c":[1.0]}', { overrides }).rendered[0]?.json).toBe(expected);
  });

  test('a member that objects in JavaScript inherit is overridden only when it is', () => {
    const json = '{"name":"a","constructor":1.0,"toString":2.0,"valueOf":3.0}';
    expect(discovered('tool', 'a', json, { overrides: '{"toString":null,"title":"T"}' }).rendered[0]?.json).toBe(
      '{"name":"a","constructor":1.0,"valueOf":3.0,"title":"T"}',
    );
  });

  test('an override replaces both of two members of one name', () => {
    expect(discovered('tool', 'a', '{"b":1,"name":"a","b":2}', { overrides: '{"b":3}' }).rendered[0]?.json).toBe(
      '{"b":3,"name":"a"}',
    );
  });
});

describe('a manual entry', () => {
  test('a tool is its definition, with a default schema where a file has none', () => {
    expect(manualEntry('tool', 't', 't', '{"description":"","inputSchema":{"max":1.0},"x":9223372036854775807}')).toBe(
      '{"name":"t","description":"","inputSchema":{"type":"object","max":1.0},"x":9223372036854775807}',
    );
    expect(manualEntry('tool', 't', 't', '{}')).toBe('{"name":"t","inputSchema":{"type":"object"}}');
  });

  test('a resource is addressed by its uri, a template by its uri template', () => {
    const definition = '{"description":"","mimeType":"text/plain","size":1.0}';
    expect(manualEntry('resource', 'x:1', 'r', definition)).toBe(
      '{"uri":"x:1","name":"r","mimeType":"text/plain","size":1.0}',
    );
    expect(manualEntry('resource', 'x:{y}', 'r', definition, { 'service.is_template': 'true' })).toBe(
      '{"uriTemplate":"x:{y}","name":"r","mimeType":"text/plain","size":1.0}',
    );
  });

  test('a prompt has no members that were not given', () => {
    expect(manualEntry('prompt', 'p', 'p', '{"description":"","arguments":[],"title":""}')).toBe(
      '{"name":"p","title":""}',
    );
    expect(manualEntry('prompt', 'p', 'p', '{"arguments":[{"name":"a"}]}')).toBe(
      '{"name":"p","arguments":[{"name":"a"}]}',
    );
  });
});
