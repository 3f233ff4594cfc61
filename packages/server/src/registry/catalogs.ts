import { memberText } from '@sluice/protocol/json/scan';
import type { Draft } from './draft.ts';
import {
  type Entry,
  type Forward,
  isTemplate,
  KINDS,
  type Kind,
  type KnownCatalogue,
  type Labels,
  type Offer,
  TEMPLATE_LABEL,
} from './entries.ts';
import { discoveredMembers, render } from './serialize.ts';
import { detached } from './stored.ts';

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
 * so that no reader sees half of it (decisions 4.3). What an operator changed on an entry stays, also while the
 * upstream does not offer it (decisions 2.5). Copies are renewed, and removed with what they are copies of; what the
 * operator changed on them goes with them (decisions 2.11).
 */
export function applyCatalogues(draft: Draft, forward: Forward, catalogues: readonly FoundCatalogue[]): void {
  const entries = draft.entriesOf(forward.name);
  const before = byUpstreamKey(entries.filter(({ discovered }) => !discovered?.copied));
  const copies = entries.filter(({ discovered }) => discovered?.copied);
  const absent = byUpstreamKey(forward.absent ?? []);
  const taken = {
    tool: new Map<string, Found>(),
    resource: new Map<string, Found>(),
    prompt: new Map<string, Found>(),
  };
  for (const { list, kind, template } of LISTS) {
    let position = 0;
    for (const [key, offers] of merge(catalogues, list)) {
      const found = { kind, template, key, offers, position: position++ };
      // A uri that is a template as well: the key is held, by the resource.
      if (taken[kind].has(key)) continue;
      taken[kind].set(key, found);
      const known = before[kind].get(key);
      if (!known || !isCurrent(forward, found, known)) {
        draft.put(discoveredEntry(draft, forward, found, known ?? absent[kind].get(key)));
      }
      before[kind].delete(key);
      absent[kind].delete(key);
    }
  }
  for (const kind of KINDS) {
    for (const [key, gone] of before[kind]) {
      draft.remove(gone);
      if (isChanged(forward, gone)) absent[kind].set(key, gone);
    }
  }
  for (const copy of copies) {
    const found = taken[copy.kind].get(upstreamKeyOf(copy));
    if (!found) draft.remove(copy);
    else if (!isCurrent(forward, found, copy)) draft.put(discoveredEntry(draft, forward, found, copy));
  }
  const waiting = KINDS.flatMap((kind) => [...absent[kind].values()]);
  putKnowledge(draft, forward, catalogues, waiting);
}

function byUpstreamKey(entries: readonly Entry[]): Record<Kind, Map<string, Entry>> {
  const found = {
    tool: new Map<string, Entry>(),
    resource: new Map<string, Entry>(),
    prompt: new Map<string, Entry>(),
  };
  for (const entry of entries) found[entry.kind].set(upstreamKeyOf(entry), entry);
  return found;
}

function upstreamKeyOf({ discovered, key }: Entry): string {
  return discovered?.upstreamKey ?? key;
}

/** Keeps with the forward what discovery found besides entries, when that is news. */
function putKnowledge(
  draft: Draft,
  forward: Forward,
  catalogues: readonly FoundCatalogue[],
  absent: readonly Entry[],
): void {
  const known = catalogues.map(({ key, era, capabilities, identity, cache }) => {
    return { key, era, capabilities, identity, cache };
  });
  const waiting = forward.absent ?? [];
  const sameAbsent = absent.length === waiting.length && absent.every((entry, at) => entry === waiting[at]);
  if (sameAbsent && JSON.stringify(known) === JSON.stringify(forward.catalogues)) return;
  draft.putForward({ ...forward, catalogues: known, absent });
}

/**
 * One list over all catalogues, by key: an object that reads the same in several becomes one offer. The longest
 * catalogue gives the order, since the shorter ones usually leave things out of it.
 */
function merge(
  catalogues: readonly FoundCatalogue[],
  list: (typeof LISTS)[number]['list'],
): Map<string, readonly Offer[]> {
  const merged = new Map<string, { json: string; catalogues: string[] | undefined }[]>();
  for (const catalogue of [...catalogues].sort((a, b) => b[list].length - a[list].length)) {
    for (const { key, json } of catalogue[list]) {
      const offers = merged.get(key);
      const offer = offers?.find((other) => other.json === json);
      if (offer) offer.catalogues?.push(catalogue.key);
      else if (offers) offers.push({ json, catalogues: [catalogue.key] });
      else merged.set(key, [{ json, catalogues: [catalogue.key] }]);
    }
  }
  for (const offers of merged.values()) {
    for (const offer of offers) if (offer.catalogues?.length === catalogues.length) offer.catalogues = undefined;
  }
  return merged;
}

/** One object of an upstream, and where it lists it. */
interface Found {
  readonly kind: Kind;
  readonly template: boolean;
  readonly key: string;
  readonly offers: readonly Offer[];
  readonly position: number;
}

/** `known` is the entry as it is, or was when the upstream last offered it. */
function discoveredEntry(draft: Draft, forward: Forward, item: Found, known: Entry | undefined): Entry {
  const { kind } = item;
  const copy = known?.discovered?.copied && known;
  const key = kind === 'resource' ? item.key : forward.prefix + item.key;
  // Where it was moved to may be gone by the time that it comes back.
  const namespace = known && draft.namespaces.has(known.namespace) ? known.namespace : forward.namespace;
  return render({
    kind,
    namespace,
    key: known?.key ?? key,
    name: kind === 'resource' ? entryName(item, known) : (known?.name ?? key),
    source: copy?.source ?? forward.source,
    position: item.position,
    labels: discoveredLabels(forward, item, known),
    members: { ...known?.members, ...discoveredMembers(kind, forward.address) },
    discovered: {
      forward: forward.name,
      upstreamKey: item.key,
      offers: keptOffers(item.offers, known?.discovered?.offers ?? []),
      overrides: known?.discovered?.overrides ?? {},
      ...(copy && { copied: true }),
    },
    definition: {},
  });
}

/** The operator's labels, and with a resource those of the service (decisions 2.6). */
function discoveredLabels(forward: Forward, { kind, template }: Found, known: Entry | undefined): Labels {
  if (kind !== 'resource') return known?.labels ?? {};
  const labels = Object.entries({ ...known?.labels, [ADDRESS_LABEL]: forward.address });
  const others = labels.filter(([label]) => label !== TEMPLATE_LABEL);
  return Object.fromEntries(template ? [...others, [TEMPLATE_LABEL, 'true']] : others);
}

/** An unchanged text stays the one that is in memory; of a new one a copy, which does not hold its whole page there. */
function keptOffers(offers: readonly Offer[], known: readonly Offer[]): Offer[] {
  return offers.map(({ json, catalogues }) => {
    const text = known.find((offer) => offer.json === json)?.json ?? detached(json);
    return { json: text, catalogues };
  });
}

/** A renamed resource keeps its name, another follows its upstream. */
function entryName(item: Found, known: Entry | undefined): string {
  const renamed = known?.discovered?.overrides.name;
  return typeof renamed === 'string' ? renamed : resourceName(item.key, item.offers);
}

/** A resource's name as its upstream gave it; its location when there is none. */
export function resourceName(location: string, offers: readonly Offer[]): string {
  const name: unknown = JSON.parse(memberText(offers[0]?.json ?? '{}', 'name') ?? 'null');
  return typeof name === 'string' && name !== '' ? name : location;
}

/** True for an entry that is not as discovery would make it: an operator renamed, moved, labelled or overrode it. */
function isChanged(forward: Forward, entry: Entry): boolean {
  const { kind, namespace, key, labels, members, discovered } = entry;
  if (!discovered) return false;
  return (
    namespace !== forward.namespace ||
    (kind !== 'resource' && key !== forward.prefix + discovered.upstreamKey) ||
    Object.keys(discovered.overrides).length > 0 ||
    Object.keys(labels).some((label) => label !== ADDRESS_LABEL && label !== TEMPLATE_LABEL) ||
    Object.keys(members).length > Object.keys(discoveredMembers(kind, forward.address)).length
  );
}

/** True when nothing that discovery decides differs: most of a refresh, so that it makes nothing anew. */
function isCurrent(forward: Forward, { kind, template, offers, position }: Found, known: Entry): boolean {
  const { labels, members, discovered } = known;
  const inPlace = known.position === position && known.source === forward.source;
  if (!inPlace && !discovered?.copied) return false;
  if (!sameOffers(offers, discovered?.offers ?? [])) return false;
  if (kind === 'resource' && (labels[ADDRESS_LABEL] !== forward.address || isTemplate(known) !== template))
    return false;
  return Object.entries(discoveredMembers(kind, forward.address)).every(([member, value]) => members[member] === value);
}

function sameOffers(a: readonly Offer[], b: readonly Offer[]): boolean {
  return (
    a.length === b.length &&
    a.every(({ json, catalogues }, at) => {
      const other = b[at];
      if (json !== other?.json || catalogues?.length !== other.catalogues?.length) return false;
      return catalogues?.every((key, index) => key === other.catalogues?.[index]) ?? true;
    })
  );
}

/**
 * What an earlier discovery found in these eras, put together from the forward's entries: for an era that cannot be
 * asked at the moment, so that what it offered stays beside what the other one offers now (mcp 4). Items stand in the order
 * in which clients see them.
 */
export function keptCatalogues(
  draft: Draft,
  forward: Forward,
  eras: ReadonlySet<KnownCatalogue['era']>,
): FoundCatalogue[] {
  const kept = forward.catalogues.filter(({ era }) => eras.has(era));
  if (kept.length === 0) return [];
  const originals = draft.entriesOf(forward.name).filter(({ discovered }) => !discovered?.copied);
  const entries = originals.sort((a, b) => a.position - b.position);
  return kept.map((catalogue) => {
    const items = (kind: Kind, template = false): FoundItem[] =>
      entries
        .filter((entry) => entry.kind === kind && isTemplate(entry) === template)
        .flatMap((entry) => itemOf(entry, catalogue.key));
    return {
      ...catalogue,
      tools: items('tool'),
      resources: items('resource'),
      templates: items('resource', true),
      prompts: items('prompt'),
    };
  });
}

/** The upstream's object as this catalogue lists it; nothing when it does not. */
function itemOf({ discovered }: Entry, catalogue: string): FoundItem[] {
  const offer = discovered?.offers.find(({ catalogues }) => catalogues?.includes(catalogue) ?? true);
  return discovered && offer ? [{ key: discovered.upstreamKey, json: offer.json }] : [];
}
