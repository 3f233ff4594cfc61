import { seeded } from '@sluice/protocol/json/fixtures/documents';
import { expect, test } from 'vitest';
import type { Draft } from './draft.ts';
import { DEFAULT_NAMESPACE, type Entry, type Namespace, parseNamespace } from './entries.ts';
import { commit } from './fixtures/commit.ts';
import { applyCatalogs, removeForward, removeNamespace } from './fixtures/operations.ts';
import { addForward, catalog } from './fixtures/upstreams.ts';
import { createEntry, removeEntry, updateEntry } from './operations.ts';
import { copyTools } from './operations-topology.ts';
import { Registry } from './registry.ts';
import { memoryLog } from './store/record-log.ts';

const NAMES = ['a', 'b', 'c', 'd'];
const NAMESPACES = ['default', 'one', 'two'].map((name) => parseNamespace(name) ?? DEFAULT_NAMESPACE);

/** An expected copy of a discovered tool. */
interface Expected {
  readonly forward: string;
  readonly upstreamKey: string;
  readonly title: string | undefined;
}

/** Changes a registry at random and tracks only the copies: the expected ones, and the upstream's state of them. */
class Copying {
  readonly copies = new Map<string, Expected>();
  /** The object of each tool, by forward and upstream's name. */
  readonly offered = new Map<string, Map<string, string>>();
  readonly tally = { copied: 0, exists: 0, gone: 0, renewed: 0, removed: 0 };
  readonly #random: () => number;
  /** Discovered tools, possibly outdated. */
  #found: Entry[] = [];

  constructor(seed: number) {
    this.#random = seeded(seed);
  }

  step(draft: Draft): void {
    const tools = NAMESPACES.flatMap((namespace) => [...draft.entries('tool', namespace)]);
    const holders = tools.filter((tool) => draft.get('tool', tool.namespace, tool.key) === tool);
    const tool = this.#pick(holders);
    const forward = this.#pick([...draft.forwards.values()]);
    switch (this.#int(12)) {
      case 0:
        if (draft.forwards.size < 2)
          addForward(draft, `up${draft.nextRegistrationId()}`, { namespace: this.#namespace() });
        return;
      case 1:
        if (forward && this.#int(3) === 0) {
          removeForward(draft, forward.name);
          this.#drop(({ forward: of }) => of === forward.name);
        }
        return;
      case 2: {
        const namespace = this.#namespace();
        if (this.#int(3) > 0 || namespace === DEFAULT_NAMESPACE || !draft.namespaces.has(namespace)) return;
        const forwards = [...draft.forwards.keys()];
        removeNamespace(draft, namespace, true);
        const gone = forwards.filter((name) => !draft.forwards.has(name));
        this.#drop(({ forward: of }, place) => gone.includes(of) || place.startsWith(`${namespace}/`));
        return;
      }
      case 3: {
        const [namespace, name] = [this.#namespace(), this.#pick(NAMES) ?? 'a'];
        if (draft.get('tool', namespace, name)) return;
        createEntry(draft, 'tool', { name, namespace, description: '', uri: 'u', toolType: 'own', input_schema: {} });
        return;
      }
      case 4:
        if (!tool) return;
        removeEntry(draft, 'tool', tool);
        this.copies.delete(placeOf(tool));
        return;
      case 5:
      case 6:
        if (tool) this.#change(draft, tool);
        return;
      case 7:
      case 8:
        if (forward) {
          const found = new Map(NAMES.filter(() => this.#int(3) > 0).map((key) => [key, this.#object(key)]));
          this.offered.set(forward.name, found);
          const items = [...found].map(([key, json]) => ({ key, json }));
          applyCatalogs(draft, forward, [catalog({ tools: items })]);
          this.tally.renewed += this.copies.size;
          this.#drop(({ forward: of, upstreamKey }) => of === forward.name && !found.has(upstreamKey));
        }
        return;
      default: {
        this.#found = [...this.#found.slice(-4), ...(tool ? [tool] : [])];
        const wanted = this.#found
          .filter(() => this.#int(2) === 0)
          .map((found) => ({ tool: found, targetNamespace: this.#namespace() }));
        for (const copy of wanted) this.#copy(draft, copy.tool, copy.targetNamespace);
      }
    }
  }

  #copy(draft: Draft, tool: Entry, targetNamespace: Namespace): void {
    const before = draft.get('tool', targetNamespace, tool.key);
    const source = draft.get('tool', tool.namespace, tool.key);
    const [outcome] = copyTools(draft, [{ tool, targetNamespace }]);
    if (!outcome) throw new Error('no outcome');
    this.tally[outcome]++;
    const after = draft.get('tool', targetNamespace, tool.key);
    if (outcome !== 'copied') return expect(after).toBe(before);
    expect(before).toBeUndefined();
    expect(after?.rendered).toEqual(source?.rendered);
    const { forward, upstreamKey, overrides } = source?.discovered ?? {};
    if (forward === undefined || upstreamKey === undefined) return expect(after?.discovered).toBeUndefined();
    const title = typeof overrides?.title === 'string' ? overrides.title : undefined;
    this.copies.set(`${targetNamespace}/${tool.key}`, { forward, upstreamKey, title });
  }

  /** Renames, moves and titles a tool. */
  #change(draft: Draft, tool: Entry): void {
    const { discovered } = tool;
    const [name, namespace] = [this.#pick([tool.key, ...NAMES, 'z']) ?? 'z', this.#namespace()];
    if (draft.get('tool', namespace, name)) return;
    const title = this.#pick(['T', 'U']);
    const own = discovered ? JSON.parse(discovered.variants[0]?.json ?? '{}') : {};
    updateEntry(draft, 'tool', tool, { ...own, title, name, namespace });
    const copy = this.copies.get(placeOf(tool));
    if (!copy) return;
    this.copies.delete(placeOf(tool));
    this.copies.set(`${namespace}/${name}`, { ...copy, title });
  }

  #drop(isGone: (copy: Expected, place: string) => boolean): void {
    for (const [place, copy] of this.copies) {
      if (!isGone(copy, place)) continue;
      this.copies.delete(place);
      this.tally.removed++;
    }
  }

  #object(key: string): string {
    return `{"name":"${key}","inputSchema":{},"v":${this.#int(3)}}`;
  }

  #namespace(): Namespace {
    return this.#pick(NAMESPACES) ?? DEFAULT_NAMESPACE;
  }

  #pick<T>(choices: readonly T[]): T | undefined {
    return choices[this.#int(choices.length)];
  }

  #int(below: number): number {
    return Math.floor(this.#random() * below);
  }
}

const TALLIED = ['copied', 'exists', 'gone', 'renewed', 'removed'] as const;
const placeOf = ({ namespace, key }: Entry): string => `${namespace}/${key}`;

test('copies follow only their forward, whatever changes around them', async () => {
  const total = { copied: 0, exists: 0, gone: 0, renewed: 0, removed: 0 };
  for (let seed = 1; seed <= 60; seed++) {
    const registry = new Registry(memoryLog());
    await registry.load();
    const copying = new Copying(seed);
    for (let step = 0; step < 80; step++) {
      await commit(registry, (draft) => copying.step(draft));
      const copies = registry.current.entries('tool', { shadowed: true }).filter((tool) => tool.discovered?.copied);
      const there = copies.map((tool) => {
        const { forward = '', upstreamKey = '', overrides = {} } = tool.discovered ?? {};
        // It holds its key with the upstream's current text.
        expect(registry.current.namespace(tool.namespace)?.indexes.tool.owner(tool.key)).toBe(tool);
        expect(tool.discovered?.variants[0]?.json).toBe(copying.offered.get(forward)?.get(upstreamKey));
        return [placeOf(tool), { forward, upstreamKey, title: overrides.title }] as const;
      });
      expect(new Map(there), `seed ${seed}, step ${step}`).toEqual(copying.copies);
    }
    for (const what of TALLIED) total[what] += copying.tally[what];
  }
  for (const count of Object.values(total)) expect(count).toBeGreaterThan(100);
}, 60_000);
