import type { ServiceInput } from '@sluice/contract';
import { seeded } from '@sluice/protocol/json/fixtures/documents';
import { parseLossless } from '@sluice/protocol/json/parse';
import { describe, expect, test } from 'vitest';
import type { DiscoveredCatalog } from './catalogs.ts';
import type { Draft } from './draft.ts';
import { DEFAULT_NAMESPACE, type Entry, KINDS, parseNamespace } from './entries.ts';
import { commit } from './fixtures/commit.ts';
import { applyCatalogs } from './fixtures/operations.ts';
import { type Loaded, PausableStore, stored } from './fixtures/pausable-store.ts';
import { entryTexts, stateOf } from './fixtures/state.ts';
import { addForward, catalog } from './fixtures/upstreams.ts';
import { createEntry, type EntryInput, removeEntry, updateEntry } from './operations.ts';
import { copyTools, registerService, removeServices, type ToolCopy } from './operations-topology.ts';
import { Registry } from './registry.ts';
import { entryJson, serviceMembers } from './serialize.ts';
import { runSteps } from './steps.ts';

async function restored(loaded: Loaded): Promise<{ registry: Registry; problems: string[] }> {
  const registry = new Registry(new PausableStore(loaded));
  return { registry, problems: await registry.load() };
}

/** Makes random changes that an operator or discovery could make. */
class Life {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = seeded(seed);
  }

  change(draft: Draft): void {
    const forwards = [...draft.forwards.values()];
    const forward = this.#pick(forwards);
    switch (this.#int(13)) {
      case 0:
        draft.putNamespace(this.#namespace(), { a: this.#word() });
        return;
      case 1:
        if (forwards.length > 3) return;
        addForward(draft, `f${this.#int(1_000_000)}`, {
          namespace: this.#namespace(),
          prefix: this.#pick(['', 'p.']) ?? '',
          labels: { l: '1' },
        });
        return;
      case 2:
        if (forward && this.#int(6) === 0) runSteps(draft.removeForwardInSteps(forward.name));
        return;
      case 3: {
        const name = this.#namespace();
        if (this.#int(8) > 0 || name === DEFAULT_NAMESPACE || !draft.namespaces.has(name)) return;
        for (const other of forwards) if (other.namespace === name) runSteps(draft.removeForwardInSteps(other.name));
        runSteps(draft.removeNamespaceInSteps(name));
        return;
      }
      case 4:
        createEntry(draft, this.#pick(KINDS) ?? 'tool', this.#submission());
        return;
      case 5: {
        const entry = this.#entry(draft);
        if (entry) removeEntry(draft, entry.kind, { name: entry.name, namespace: entry.namespace, uri: entry.key });
        return;
      }
      case 6:
      case 7: {
        const entry = this.#entry(draft);
        if (entry) this.#update(draft, entry);
        return;
      }
      case 8:
        registerService(draft, this.#service());
        return;
      case 9:
        removeServices(draft, this.#word(), this.#pick([undefined, 'tool-invoker', 'code-execution-engine']));
        return;
      case 10:
        copyTools(draft, this.#copies(draft));
        return;
      default:
        if (forward) applyCatalogs(draft, forward, this.#catalogs());
    }
  }

  #update(draft: Draft, entry: Entry): void {
    const shown = Object(parseLossless(entryJson(entry)));
    const labels = this.#int(3) === 0 ? { mine: this.#word() } : shown.labels;
    const changed = { ...shown, labels, ...(this.#int(2) === 0 && { title: this.#word(), n: JSON.rawJSON('2.0') }) };
    if (this.#int(3) === 0) changed.name = this.#word();
    if (this.#int(3) === 0) changed.namespace = this.#namespace();
    updateEntry(draft, entry.kind, { name: entry.name, namespace: entry.namespace, uri: entry.key }, changed);
  }

  #submission(): EntryInput {
    return {
      name: this.#word(),
      namespace: this.#namespace(),
      location: `x:${this.#word()}`,
      description: this.#word(),
      input_schema: { type: 'object', max: JSON.rawJSON('9223372036854775807') },
      labels: this.#int(2) === 0 ? {} : { 'service.is_template': 'true' },
      toolType: 'custom',
      uri: 'u',
      id: 'i',
      ...(this.#int(3) === 0 && { source: 'mine', position: 3, upstream: {}, kept: [1], offers: null, constructor: 1 }),
    };
  }

  #service(): ServiceInput {
    return {
      name: this.#word(),
      host: this.#pick(['h.test', '127.0.0.1', '::1', '1.2']) ?? 'h',
      port: 1 + this.#int(65_535),
      serviceType: this.#pick(['tool-invoker', 'code-execution-engine'] as const) ?? 'tool-invoker',
      serviceSubType: this.#pick([undefined, '', this.#word()]),
      languageName: this.#pick([undefined, 'null', this.#word()]),
      labels: this.#pick([undefined, {}, Object.fromEntries([['__proto__', this.#word()]])]),
      id: this.#pick([undefined, this.#word()]),
    };
  }

  #catalogs(): DiscoveredCatalog[] {
    const word = () => this.#word();
    const list = (member: string) => {
      const keys = new Set(Array.from({ length: this.#int(6) }, word));
      return [...keys].map((key) => {
        const uri = member === 'name' ? key : `x:${key}`;
        const odd = [',"n":1.0', ',"toString":9223372036854775807', ',"__proto__":{"a":1e400}', ''];
        const more = this.#pick(member === 'name' ? odd : [...odd, ',"name":"\\u0061"', ',"name":"b"']);
        return { key: uri, json: `{ "${member}" : ${JSON.stringify(uri)}${more}}` };
      });
    };
    return (this.#pick([['legacy:{}'], ['legacy:{}', 'legacy:rich', 'modern:{}']]) ?? []).map((key) =>
      catalog({
        key,
        cache: key.startsWith('modern') ? { 'tools/list': { ttlMs: this.#int(3), cacheScope: 'private' } } : {},
        tools: list('name'),
        prompts: list('name'),
        resources: list('uri'),
        templates: list('uriTemplate'),
      }),
    );
  }

  #entry(draft: Draft, kind = this.#pick(KINDS) ?? 'tool'): Entry | undefined {
    const all = [...draft.namespaces.keys()].flatMap((namespace) => [...draft.entries(kind, namespace)]);
    return this.#pick(all.filter((entry) => draft.get(kind, entry.namespace, entry.key) === entry));
  }

  #copies(draft: Draft): ToolCopy[] {
    return Array.from({ length: 1 + this.#int(3) }, () => this.#entry(draft, 'tool'))
      .filter((tool) => tool !== undefined)
      .map((tool) => ({ tool, targetNamespace: this.#namespace() }));
  }

  #word(): string {
    return this.#pick(['a', 'b', 'c', 'd', 'e f', 'é𝄞', 'g"\\', 'p.a']) ?? 'a';
  }

  #namespace() {
    return parseNamespace(this.#pick(['default', 'ops', 'crm']) ?? 'default') ?? DEFAULT_NAMESPACE;
  }

  #pick<T>(choices: readonly T[]): T | undefined {
    return choices[this.#int(choices.length)];
  }

  #int(below: number): number {
    return Math.floor(this.#random() * below);
  }
}

describe('a state after random changes', () => {
  test.each(Array.from({ length: 40 }, (_, seed) => seed + 1))(
    'is restored from the file, from the journal, and from both (%i)',
    async (seed) => {
      const store = new PausableStore();
      const registry = new Registry(store);
      await registry.load();
      const life = new Life(seed);
      let folded: Loaded = {};
      let since = 0;
      for (let step = 0; step < 120; step++) {
        // Some are rejected; those must have no effect either.
        await commit(registry, (draft) => life.change(draft)).catch(() => undefined);
        if (step === 60) {
          folded = { entries: entryTexts(registry.current) };
          since = store.journal.length;
        }
      }
      const now = stateOf(registry.current);
      for (const loaded of [
        { entries: entryTexts(registry.current) },
        { journal: store.journal },
        { ...folded, journal: store.journal.slice(since) },
      ]) {
        const { registry: again, problems } = await restored(loaded);
        expect(problems).toEqual([]);
        expect(stateOf(again.current)).toEqual(now);
        expect(entryTexts(again.current)).toEqual(entryTexts(registry.current));
      }
    },
  );
});

describe('a file written by hand', () => {
  test('may contain only names, with defaults for the rest', async () => {
    const { registry, problems } = await restored({
      entries: stored({
        tools: [{ name: 't' }],
        resources: [
          { name: 'r', location: 'x:1' },
          { uri: 'x:{y}', name: 'tpl', labels: { 'service.is_template': 'true' } },
        ],
        prompts: [{ name: 'p', namespace: 'ops' }],
        forwards: [{ name: 'f', address: 'http://f.test/mcp' }],
        services: [
          { name: 's', address: '[::1]:50051', serviceType: 'tool-invoker' },
          { serviceName: 't', host: 'h.test', port: 1, service_type: 'multi-capability', id: null, health: 'down' },
        ],
      }),
    });
    expect(problems).toEqual([]);
    const { current } = registry;
    const shown = KINDS.map((kind) =>
      current.entries(kind).map((entry) => [entry.rendered[0]?.json, entryJson(entry)]),
    );
    expect(shown).toEqual([
      [
        [
          '{"name":"t","inputSchema":{"type":"object"}}',
          '{"name":"t","namespace":"default","labels":{},"enabled":true,"description":"","input_schema":{}}',
        ],
      ],
      [
        [
          '{"uri":"x:1","name":"r"}',
          '{"name":"r","namespace":"default","location":"x:1","labels":{},"enabled":true,"description":"","mimeType":""}',
        ],
        [
          '{"uriTemplate":"x:{y}","name":"tpl"}',
          '{"name":"tpl","namespace":"default","location":"x:{y}","labels":{"service.is_template":"true"},"enabled":true,"description":"","mimeType":""}',
        ],
      ],
      [
        [
          '{"name":"p"}',
          '{"name":"p","namespace":"ops","labels":{},"enabled":true,"description":"","arguments":[],"messages":[]}',
        ],
      ],
    ]);
    expect([...current.namespaces.keys()].sort()).toEqual(['default', 'ops']);
    expect(current.forwards.get('f')).toMatchObject({ namespace: 'default', labels: {}, prefix: '', catalogs: [] });
    expect(current.services.all.map(serviceMembers)).toEqual([
      { name: 's', host: '::1', port: 50051, address: '[::1]:50051', serviceType: 'tool-invoker', labels: {} },
      { name: 't', host: 'h.test', port: 1, address: 'h.test:1', serviceType: 'multi-capability', labels: {} },
    ]);
    expect(entryTexts(current).services.join()).not.toContain('health');
    // And reads the same after it was written.
    const { registry: again } = await restored({ entries: entryTexts(current) });
    expect(stateOf(again.current)).toEqual(stateOf(current));
  });

  test('keeps members unknown to this version', async () => {
    const entries = stored({
      namespaces: ['{"name":"default","owner":{"team":1.0}}'],
      forwards: ['{"name":"f","address":"http://f.test/mcp","note":9223372036854775807,"a\\n":[]}'],
      tools: ['{"name":"t","x-mine":1.0,"source":"ours","upstream":"crm","__proto__":{"a":1}}'],
      services: ['{"name":"s","address":"h:1","serviceType":"tool-invoker","owner":1.0}'],
    });
    const { registry } = await restored({ entries });
    await commit(registry, (draft) => {
      registerService(draft, { name: 's', host: 'h', port: 2, serviceType: 'tool-invoker' });
      draft.putNamespace(DEFAULT_NAMESPACE, { a: '1' });
      const forward = draft.forwards.get('f');
      if (forward) applyCatalogs(draft, forward, [catalog()]);
    });
    const { namespaces, forwards, tools, services } = entryTexts(registry.current);
    expect(services).toEqual([expect.stringMatching(/"port": 2,.*"owner": 1\.0/s)]);
    expect(namespaces[0]).toContain('"owner": {"team":1.0}');
    expect(forwards[0]).toContain('"note": 9223372036854775807,\n  "a\\n": []');
    const served =
      '{"name":"t","x-mine":1.0,"source":"ours","upstream":"crm","__proto__":{"a":1},"inputSchema":{"type":"object"}}';
    expect(registry.current.entries('tool')[0]?.rendered[0]?.json).toBe(served);
    const { registry: again } = await restored({ entries: { ...stored({}), namespaces, forwards, tools, services } });
    expect(again.current.entries('tool')[0]?.rendered[0]?.json).toBe(served);
    expect(stateOf(again.current)).toEqual(stateOf(registry.current));
  });

  test('keeps unusable records and reports them', async () => {
    const bad = {
      namespaces: ['{"name":"No Such"}'],
      forwards: ['{"name":"f"}', '{"name":"f","address":"http://f","namespace":"-"}'],
      tools: [
        '{"name":"t","namespace":"-"}',
        '{"description":"nameless"}',
        `{"name":"deep","x":${'['.repeat(9_999)}${']'.repeat(9_999)}}`,
      ],
      resources: ['{"name":"r"}'],
      services: [
        '{"name":"s","host":"h","port":1.0}',
        '{"serviceType":"tool-invoker","address":"h:0","x":1.0}',
        '{"name":"s","serviceType":"tool-invoker","address":"h:1","host":"h","port":2}',
      ],
    };
    const { registry, problems } = await restored({ entries: stored(bad) });
    expect(problems).toEqual([
      'an entry of namespaces in registry.json cannot be used: invalid namespace name "No Such"',
      'an entry of forwards in registry.json cannot be used: name and address are required',
      'an entry of forwards in registry.json cannot be used: invalid namespace "-"',
      'an entry of tools in registry.json cannot be used: invalid namespace "-"',
      'an entry of tools in registry.json cannot be used: no name',
      'an entry of tools in registry.json cannot be used: nested too deeply',
      'an entry of resources in registry.json cannot be used: no location for resource "r"',
      'an entry of services in registry.json cannot be used: serviceType is required',
      'an entry of services in registry.json cannot be used: name is required',
      'an entry of services in registry.json cannot be used: port does not match address',
    ]);
    await commit(registry, (draft) => createEntry(draft, 'tool', { name: 'new' }));
    await commit(registry, (draft) =>
      registerService(draft, { name: 'new', host: 'h', port: 1, serviceType: 'tool-invoker' }),
    );
    const { namespaces, ...others } = entryTexts(registry.current);
    expect(namespaces).toContain(bad.namespaces[0]);
    expect(others).toMatchObject({ forwards: bad.forwards, resources: bad.resources });
    expect(others.services).toEqual(expect.arrayContaining(bad.services));
    expect(others.tools).toEqual(expect.arrayContaining(bad.tools));
  });

  test('of a hundred thousand unusable entries is restored, with a few warnings', async () => {
    const { registry, problems } = await restored({ entries: stored({ tools: Array(100_000).fill('{}') }) });
    expect(problems).toHaveLength(101);
    expect(problems[0]).toBe('an entry of tools in registry.json cannot be used: no name');
    expect(problems.at(-1)).toBe('99900 more entries of registry.json cannot be used or were dropped');
    expect(entryTexts(registry.current).tools).toHaveLength(100_000);
  });

  test('drops entries whose forward was removed, with a warning', async () => {
    const orphan = { name: 't', forward: 'gone', upstream: { name: 't' }, overrides: {} };
    const { registry, problems } = await restored({ entries: stored({ tools: [orphan] }) });
    expect(problems).toEqual(['an entry of tools in registry.json was dropped: forward "gone" is not registered']);
    expect(entryTexts(registry.current).tools).toEqual([]);
  });

  test('assigns missing registration ids after all existing ones, without duplicates', async () => {
    const { registry } = await restored({
      entries: stored({
        forwards: [
          { name: 'new', address: 'http://new.test/' },
          { name: 'old', address: 'http://old.test/', source: 7 },
        ],
        tools: [
          { name: 'hand' },
          { name: 'odd', source: -1 },
          { name: 'huge', source: 1e300 },
          { name: 'mine', source: 9, service: { source: 3 } },
        ],
        services: [
          { name: 'late', host: 'h', port: 1, serviceType: 'tool-invoker' },
          { name: 'early', host: 'h', port: 1, serviceType: 'tool-invoker', source: 8 },
        ],
      }),
    });
    const { current } = registry;
    const numbers = [...current.forwards.values(), ...current.entries('tool'), ...current.services.all].map(
      ({ name, registrationId: source }) => [name, source],
    );
    expect(Object.fromEntries(numbers)).toEqual({
      old: 7,
      early: 8,
      mine: 9,
      new: 10,
      hand: 11,
      odd: 12,
      huge: 13,
      late: 14,
    });
    expect(current.next).toBe(15);
  });

  test('accepts services in any order: the first registered one is the first of its name', async () => {
    const service = (serviceType: string, source: number) => ({ name: 's', address: 'h:1', serviceType, source });
    const { registry } = await restored({
      entries: stored({ services: [service('tool-invoker', 5), service('resource-provider', 3)] }),
    });
    const { services } = registry.current;
    expect(services.named('s').map(({ registrationId: source }) => source)).toEqual([3, 5]);
    expect(services.all).toEqual(services.named('s'));
  });

  test('serves the first of two entries with the same key', async () => {
    const forward = (name: string) => ({ name, address: `http://${name}.test/` });
    const tool = (name: string) => ({ name: 't', forward: name, upstream: { name: 't', from: name } });
    const entries = stored({ forwards: [forward('a'), forward('b')], tools: [tool('b'), tool('a')] });
    const { registry } = await restored({ entries });
    expect(
      registry.current
        .namespace('default')
        ?.indexes.tool.candidates('t')
        .map((entry) => entry.discovered?.forward),
    ).toEqual(['b', 'a']);
  });
});
