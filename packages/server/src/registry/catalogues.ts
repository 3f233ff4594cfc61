import { memberText } from '../json/scan.ts';
import type { Draft } from './draft.ts';
import { type Entry, type Forward, type Kind, type KnownCatalogue, type Offer, TEMPLATE_LABEL } from './entries.ts';
import { discoveredMembers } from './json.ts';
import { render } from './render.ts';

/** One object that an upstream lists: what it is addressed by, and its exact text. */
export interface FoundItem {
  readonly key: string;
  readonly json: string;
}

/** What one discovery of a forward found for one era and set of client capabilities. */
export interface FoundCatalogue extends KnownCatalogue {
  readonly tools: readonly FoundItem[];
  readonly resources: readonly FoundItem[];
  readonly templates: readonly FoundItem[];
  readonly prompts: readonly FoundItem[];
}

const LISTS = [
  { list: 'tools', kind: 'tool', template: false },
  { list: 'resources', kind: 'resource', template: false },
  { list: 'templates', kind: 'resource', template: true },
  { list: 'prompts', kind: 'prompt', template: false },
] as const;

/** Label that says which upstream a discovered resource came from (decisions 2.6). */
const ADDRESS_LABEL = 'service.forward_address';

/**
 * Makes a forward's entries exactly what discovery found: new ones are added, missing ones removed, all in one change,
 * so that no reader sees half of it (decisions 4.3). What an operator changed on an entry stays (decisions 2.5).
 */
export function applyCatalogues(draft: Draft, forward: Forward, catalogues: readonly FoundCatalogue[]): void {
  const before = new Map(draft.entriesOf(forward.name).map((entry) => [identity(entry), entry]));
  for (const { list, kind, template } of LISTS) {
    for (const [position, item] of merge(catalogues, list).entries()) {
      const known = before.get(`${kind} ${item.key}`);
      before.delete(`${kind} ${item.key}`);
      const entry = discoveredEntry(forward, { kind, template, position, ...item }, known);
      if (!known || !same(known, entry)) draft.put(entry);
    }
  }
  for (const gone of before.values()) draft.remove(gone);
  const known = catalogues.map(({ key, era, capabilities, identity, cache }) => {
    return { key, era, capabilities, identity, cache };
  });
  if (JSON.stringify(known) !== JSON.stringify(forward.catalogues)) draft.putForward({ ...forward, catalogues: known });
}

interface Merged {
  readonly key: string;
  readonly offers: Offer[];
}

/**
 * One list over all catalogues: an object that reads the same in several becomes one offer. The longest catalogue
 * gives the order, since the shorter ones usually leave things out of it.
 */
function merge(catalogues: readonly FoundCatalogue[], list: (typeof LISTS)[number]['list']): Merged[] {
  const merged = new Map<string, Map<string, string[]>>();
  for (const catalogue of [...catalogues].sort((a, b) => b[list].length - a[list].length)) {
    for (const { key, json } of catalogue[list]) {
      const texts = merged.get(key) ?? new Map<string, string[]>();
      merged.set(key, texts);
      texts.set(json, [...(texts.get(json) ?? []), catalogue.key]);
    }
  }
  return [...merged].map(([key, texts]) => ({
    key,
    offers: [...texts].map(([json, keys]) => ({
      json,
      catalogues: keys.length === catalogues.length ? undefined : keys,
    })),
  }));
}

function discoveredEntry(
  forward: Forward,
  item: Merged & { kind: Kind; template: boolean; position: number },
  known: Entry | undefined,
): Entry {
  const { kind, offers } = item;
  const key = kind === 'resource' ? item.key : forward.prefix + item.key;
  const labels = kind === 'resource' ? resourceLabels(forward.address, item.template) : {};
  return render({
    kind,
    namespace: known?.namespace ?? forward.namespace,
    key: known?.key ?? key,
    name: kind === 'resource' ? entryName(item, known) : (known?.name ?? key),
    source: forward.source,
    position: item.position,
    labels: { ...known?.labels, ...labels },
    members: { ...known?.members, ...discoveredMembers(kind, forward.address) },
    discovered: {
      forward: forward.name,
      upstreamKey: item.key,
      offers,
      overrides: known?.discovered?.overrides ?? {},
    },
    definition: {},
  });
}

function resourceLabels(address: string, template: boolean): Record<string, string> {
  return template ? { [ADDRESS_LABEL]: address, [TEMPLATE_LABEL]: 'true' } : { [ADDRESS_LABEL]: address };
}

/** A renamed resource keeps its name, another follows its upstream. */
function entryName(item: Merged, known: Entry | undefined): string {
  const renamed = known?.discovered?.overrides.name;
  return typeof renamed === 'string' ? renamed : resourceName(item.key, item.offers);
}

/** A resource's name as its upstream gave it; its location when there is none. */
export function resourceName(location: string, offers: readonly Offer[]): string {
  const name: unknown = JSON.parse(memberText(offers[0]?.json ?? '{}', 'name') ?? 'null');
  return typeof name === 'string' && name !== '' ? name : location;
}

function identity(entry: Entry): string {
  return `${entry.kind} ${entry.discovered?.upstreamKey ?? entry.key}`;
}

function same(a: Entry, b: Entry): boolean {
  return (
    a.position === b.position &&
    a.source === b.source &&
    JSON.stringify([a.labels, a.members, a.discovered?.offers]) ===
      JSON.stringify([b.labels, b.members, b.discovered?.offers])
  );
}
