import type { JsonObject } from '@sluice/protocol/json/parse';
import { addEntry, removeEntry, replaceEntry } from './claims.ts';
import { resourceName } from './entries.ts';
import type { Catalog, Entry, Forward, Kind, State } from './state.ts';

/** Lists of an upstream, with the members that identify their objects. */
const LISTS = [
  { list: 'tools', kind: 'tool', member: 'name' },
  { list: 'resources', kind: 'resource', member: 'uri' },
  { list: 'templates', kind: 'resource', member: 'uriTemplate' },
  { list: 'prompts', kind: 'prompt', member: 'name' },
] as const satisfies readonly { list: keyof Catalog; kind: Kind; member: string }[];

/** One object of an upstream's list. */
interface Item {
  readonly kind: Kind;
  readonly key: string;
  readonly object: JsonObject;
  readonly list: number;
  readonly position: number;
}

/**
 * Applies an upstream's current catalog to a forward: adds new entries, updates existing ones without losing overrides, removes
 * others. Overrides return with their entry. Returns false when the upstream is unreachable: then nothing changes, and the
 * forward is unavailable.
 */
export function discover(state: State, name: string): boolean {
  const forward = state.forwards.find((each) => each.name === name);
  if (!forward) throw new Error(`there is no forward ${name}`);
  const upstream = state.upstreams.find(({ address }) => address === forward.address);
  if (upstream?.mode !== 'up') {
    setForward(state, { ...forward, available: false });
    return false;
  }
  const { items, skipped } = itemsOf(upstream.catalog);
  const missing = state.entries.filter(
    ({ kind, discovered }) =>
      discovered?.forward === name && !items.some((item) => item.kind === kind && item.key === discovered.key),
  );
  const removedEntries = forward.removedEntries.filter(
    ({ kind, discovered }) => !items.some((i) => i.kind === kind && i.key === discovered?.key),
  );
  for (const item of items) follow(state, forward, item);
  for (const { kind, discovered } of missing) {
    const entry = entryOf(state, name, kind, discovered?.key);
    if (!entry) throw new Error('a removed entry does not exist');
    removeEntry(state, entry);
    removedEntries.push(entry);
  }
  setForward(state, { ...forward, available: true, known: true, skipped, removedEntries });
  return true;
}

/** Entries without a name (or uri) and repeated keys are skipped; a uri that is a template as well is the resource. */
function itemsOf(catalog: Catalog): { items: Item[]; skipped: number } {
  const items: Item[] = [];
  let skipped = 0;
  for (const [number, { list, kind, member }] of LISTS.entries()) {
    const seen = new Set<string>();
    for (const object of catalog[list]) {
      const key = object[member];
      if (typeof key !== 'string' || key === '' || seen.has(key)) {
        skipped++;
        continue;
      }
      seen.add(key);
      if (items.some((item) => item.kind === kind && item.key === key)) continue;
      items.push({ kind, key, object, list: number, position: seen.size });
    }
  }
  return { items, skipped };
}

function follow(state: State, forward: Forward, { kind, key, object, list, position }: Item): void {
  const { address, prefix, registered } = forward;
  const present = entryOf(state, forward.name, kind, key);
  const known = present ?? forward.removedEntries.find((entry) => entry.kind === kind && entry.discovered?.key === key);
  const addressed = kind === 'resource' ? key : prefix + key;
  const overrides = known?.discovered?.overrides ?? {};
  const called = typeof overrides.name === 'string' ? overrides.name : resourceName(object, key);
  const own: Record<Kind, JsonObject> = {
    tool: { uri: address, toolType: 'mcp-forward' },
    resource: { type: 'mcp-forward' },
    prompt: { configurationURI: address },
  };
  const { 'service.is_template': _, ...labels } = known?.labels ?? {};
  const after: Entry = {
    kind,
    namespace: known?.namespace ?? forward.namespace,
    key: known?.key ?? addressed,
    name: kind === 'resource' ? called : (known?.name ?? addressed),
    listPosition: { registered, list, position },
    shadowed: false,
    enabled: known?.enabled ?? true,
    labels: {
      ...labels,
      ...(kind === 'resource' && { 'service.forward_address': address }),
      ...(LISTS[list]?.list === 'templates' && { 'service.is_template': 'true' }),
    },
    members: { ...known?.members, ...own[kind] },
    discovered: { forward: forward.name, key, object, overrides },
  };
  if (present) replaceEntry(state, present, after);
  else addEntry(state, after);
}

function entryOf(state: State, forward: string, kind: Kind, key: string | undefined): Entry | undefined {
  return state.entries.find((e) => e.kind === kind && e.discovered?.forward === forward && e.discovered.key === key);
}

function setForward(state: State, forward: Forward): void {
  state.forwards = state.forwards.map((each) => (each.name === forward.name ? forward : each));
}
