import type { Era } from '@sluice/protocol/mcp/constants';
import { describe, expect, it } from 'vitest';
import { DEFAULT_NAMESPACE, type Forward, type KnownCatalog } from '../registry/entries.ts';
import { emptyNamespace, Snapshot } from '../registry/snapshot.ts';
import { advertisedCapabilities, type Declaration, declarationsTo, forwardForMethod } from './server-info.ts';

/** Capabilities declared by upstreams `a`, `b`, ...; the JSON text may have an era prefix (`modern {...}`). */
function declarations(...texts: readonly string[]): Declaration[] {
  const forwards = texts.map((text, index): Forward => {
    const [, era, capabilities = ''] = /^(?:(legacy|modern) )?(.*)$/.exec(text) ?? [];
    const catalog: KnownCatalog = {
      key: 'k',
      era: era === 'modern' ? 'modern' : 'legacy',
      capabilities: {},
      identity: `{"capabilities":${capabilities}}`,
      cache: {},
    };
    const name = String.fromCharCode(97 + index);
    // The order of registration is not that of the map.
    const source = texts.length - index;
    return {
      name,
      address: '',
      namespace: DEFAULT_NAMESPACE,
      labels: {},
      prefix: '',
      registrationId: source,
      catalogs: capabilities === '' ? [] : [catalog],
    };
  });
  const byName = new Map(forwards.map((forward) => [forward.name, forward]));
  const choose = (name: string) => byName.get(name)?.catalogs[0];
  const namespace = emptyNamespace(DEFAULT_NAMESPACE);
  const view = { key: '', choose, item: () => '', wrap: () => '' };
  return declarationsTo({ view }, new Snapshot(new Map(), byName, 9), namespace);
}

const ALWAYS = { tools: { listChanged: true }, resources: { listChanged: true }, prompts: { listChanged: true } };

describe('advertised capabilities', () => {
  const advertised = (era: Era, ...texts: readonly string[]) =>
    JSON.parse(advertisedCapabilities(declarations(...texts), era));

  it('are tools, resources and prompts with change notifications, regardless of the forwards declare', () => {
    expect(advertised('legacy')).toEqual(ALWAYS);
    expect(advertised('modern', '', 'modern {"tools":{"x":1},"resources":{"subscribe":false},"prompts":null}')).toEqual(
      ALWAYS,
    );
  });

  it('include completions, logging and subscriptions of any forward in any era', () => {
    const all = '{"completions":{},"logging":{},"resources":{"subscribe":true}}';
    const whole = {
      ...ALWAYS,
      resources: { subscribe: true, listChanged: true },
      completions: {},
      logging: {},
    };
    expect(advertised('legacy', '{}', all, all)).toEqual(whole);
    expect(advertised('modern', `modern ${all}`)).toEqual(whole);
    expect(advertised('modern', all)).toEqual(whole);
    expect(advertised('legacy', `modern ${all}`)).toEqual(whole);
    expect(advertised('legacy', 'modern {"completions":{}}', '{"logging":{}}')).toEqual({
      ...ALWAYS,
      completions: {},
      logging: {},
    });
    const none = '{"completions":false,"logging":null,"resources":{"subscribe":false}}';
    expect(advertised('legacy', none, `modern ${none}`)).toEqual(ALWAYS);
  });

  it('are extensions, experiments and vendors’ members of the one forward that declares them', () => {
    const a = '{"extensions":{"x/ui":{"v":1},"x/both":{}},"acme":1}';
    const b = '{"experimental":{"lab":{}},"extensions":{"y/chat":{},"x/both":{}}}';
    expect(advertised('legacy', a, b)).toEqual({
      ...ALWAYS,
      acme: 1,
      extensions: { 'x/ui': { v: 1 }, 'y/chat': {} },
      experimental: { lab: {} },
    });
    expect(advertised('modern', a, b)).toEqual(ALWAYS);
    expect(advertised('legacy', a, a)).toEqual(ALWAYS);
    // The owner of a method would be ambiguous.
    expect(advertised('modern', 'modern {"extensions":{"x/tasks":{}}}', '{"tasks":{}}')).toEqual(ALWAYS);
  });

  it('include tasks of any number of forwards, in the form of the era of the client', () => {
    const core = '{"tasks":{"requests":{"tools":{"call":{}}}}}';
    const tasks = { list: {}, cancel: {}, requests: { tools: { call: {} } } };
    expect(advertised('legacy', core)).toEqual({ ...ALWAYS, tasks });
    expect(advertised('legacy', core, '{}', core)).toEqual({ ...ALWAYS, tasks });
    for (const none of ['{"tasks":{}}', '{"tasks":{"requests":{"tools":{}}}}', '{"tasks":true}']) {
      expect(advertised('legacy', none)).toEqual(ALWAYS);
      expect(advertised('modern', none)).toEqual(ALWAYS);
    }
    const extended = (settings: string) => `modern {"extensions":{"io.modelcontextprotocol/tasks":${settings}}}`;
    const extension = (settings: object) => ({ extensions: { 'io.modelcontextprotocol/tasks': settings } });
    expect(advertised('modern', extended('{"n":1}'))).toEqual({ ...ALWAYS, ...extension({ n: 1 }) });
    expect(advertised('modern', extended('{"n":1}'), extended('{}'), core)).toEqual({ ...ALWAYS, ...extension({}) });
    expect(advertised('modern', core)).toEqual({ ...ALWAYS, ...extension({}) });
    expect(advertised('legacy', extended('{}'))).toEqual({ ...ALWAYS, tasks });
  });

  it("keep the upstream's exact text, in order of registration", () => {
    const text = advertisedCapabilities(
      declarations('{"b":{"n":9223372036854775807}}', '{"a":{"f":1.0, "__proto__":{}}}'),
      'legacy',
    );
    expect(text).toContain(
      '"prompts":{"listChanged":true},"a":{"f":1.0, "__proto__":{}},"b":{"n":9223372036854775807}}',
    );
  });

  it('omit what would make a client reject the whole response', () => {
    expect(advertised('legacy', '{"tasks":true,"extensions":{"x/ui":true,"x/ok":{}},"experimental":[1]}')).toEqual({
      ...ALWAYS,
      extensions: { 'x/ok': {} },
    });
  });
});

describe('the forward for a method', () => {
  it.each([
    ['the one that declares its segment', ['{"tasks":{}}', '{"logging":{}}'], 'a'],
    ['the one that has it as an extension', ['{}', '{"extensions":{"io.x/tasks":{}}}'], 'b'],
    ['the one that has it as an experiment', ['{}', '{"experimental":{"tasks":{}}}'], 'b'],
    ['the only one with any extension', ['{"experimental":{}}', '{"extensions":{"io.x/other":{}}}'], 'b'],
    ['none of two that declare it', ['{"tasks":{}}', '{"extensions":{"io.x/tasks":{}}}'], undefined],
    ['none of two with extensions', ['{"experimental":{"x":{}}}', '{"extensions":{"y":{}}}'], undefined],
    ['none where nobody declares anything', ['{"tools":{}}', ''], undefined],
    ['none that takes it back', ['{"tasks":null}', '{"tasks":false}'], undefined],
  ])('is %s', (_what, texts, forward) => {
    expect(forwardForMethod('tasks/get', declarations(...texts))).toBe(forward);
  });
});
