import type { JsonObject } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/text';
import type { Draft } from './draft.ts';
import {
  type Entry,
  type EntryVariant,
  type Forward,
  isTemplate,
  KINDS,
  type Kind,
  type KnownCatalog,
  type Labels,
  TEMPLATE_LABEL,
} from './entries.ts';
import { Exposure } from './exposure.ts';
import { ADDRESS_LABEL, hasOperatorState } from './retained.ts';
import { type InternedFields, internedFields, internFields, NONE, render } from './serialize.ts';
import type { Counts } from './snapshot.ts';
import { forEachInSteps, type Steps, sortInSteps } from './steps.ts';

/** One object of an upstream's list: its name or uri, and its exact text, which is no slice of a longer one. */
export interface ListedItem {
  readonly key: string;
  readonly json: string;
}

/** Result of a discovery in the registry. */
export interface StoredDiscovery {
  /** Catalogs of undecided eras, which were not discovered again. */
  readonly known: readonly DiscoveredCatalog[];
  /** Objects that the forward does not expose; undefined if it has changed meanwhile. */
  readonly hidden?: Counts | undefined;
}

/** Kind of the entries of each list. */
export const KIND_OF_LIST = {
  tools: 'tool',
  resources: 'resource',
  templates: 'resource',
  prompts: 'prompt',
} as const satisfies Record<string, Kind>;

type List = keyof typeof KIND_OF_LIST;

const LISTS: readonly List[] = ['tools', 'resources', 'templates', 'prompts'];

/** Result of a discovery for one era and set of client capabilities. */
export type DiscoveredCatalog = KnownCatalog & Readonly<Record<List, readonly ListedItem[]>>;

/**
 * Stores a discovery: of undecided eras, the known catalogs remain. Changes nothing if the forward is another one meanwhile, or has
 * another address.
 */
export function* storeDiscoveryInSteps(
  draft: Draft,
  { name, address, registrationId }: Forward,
  {
    catalogs,
    undecided,
  }: {
    readonly catalogs: readonly DiscoveredCatalog[];
    readonly undecided: readonly Pick<KnownCatalog, 'era'>[];
  },
): Steps<StoredDiscovery> {
  const forward = draft.forwards.get(name);
  if (forward?.registrationId !== registrationId || forward.address !== address) return { known: [] };
  const known = yield* knownCatalogs(draft, forward, new Set(undecided.map(({ era }) => era)));
  return { known, hidden: yield* applyCatalogsInSteps(draft, forward, [...catalogs, ...known]) };
}

/**
 * Replaces a forward's entries by the result of a discovery: adds new ones and removes missing ones, in one commit. An operator's
 * overrides and marks remain, also while the upstream does not list the entry. Copies are updated, and removed with their
 * original; overrides of copies are not. Objects that the forward does not expose are left out; returns their number by kind.
 */
export function* applyCatalogsInSteps(
  draft: Draft,
  forward: Forward,
  catalogs: readonly DiscoveredCatalog[],
): Steps<Counts> {
  const hidden = { tool: 0, resource: 0, prompt: 0 };
  const entries = yield* draft.entriesInSteps(forward.name);
  const shared = membersOf(forward, entries);
  const exposure = new Exposure(forward);
  const before = yield* byUpstreamKey(entries.filter(({ discovered }) => !discovered?.copied));
  const copies = entries.filter(({ discovered }) => discovered?.copied);
  const copied = yield* byUpstreamKey(copies);
  const detached = yield* byUpstreamKey(forward.detachedOverrides ?? []);
  const hasTemplates = catalogs.some(({ templates }) => templates.length > 0);
  const uris = new Set<string>();
  // Those of which there are copies.
  const originals = { tool: new Map<string, DiscoveredItem>(), resource: new Map(), prompt: new Map() };
  for (const list of LISTS) {
    const kind = KIND_OF_LIST[list];
    const template = list === 'templates';
    let position = 0;
    yield* forEachMerged(catalogs, list, (key, json, merged) => {
      if (!exposure.exposes(kind, key)) {
        hidden[kind]++;
        return;
      }
      const place = { kind, template, position: position++ };
      // A uri is also listed as a template: the resource is served.
      if (template && uris.has(key)) return;
      if (hasTemplates && kind === 'resource') uris.add(key);
      const copy = copied[kind].get(key);
      const current = before[kind].get(key);
      const known = current ?? detached[kind].get(key);
      const isSame = current && isCurrent(forward, place, current, shared) && hasVariants(current, json, merged);
      // Nothing is allocated for an entry that does not change, as nearly all of a refresh.
      if (!isSame || copy) {
        const found = { ...place, key, variants: merged ?? [{ json, catalogs: undefined }] };
        if (copy) originals[kind].set(key, found);
        if (!isSame) {
          const isNew = !known && !copy && forward.catalogs.length > 0;
          const entry = discoveredEntry(forward, found, known, shared);
          draft.put(isNew && exposure.disablesNew(kind) ? { ...entry, disabledBy: 'new' } : entry);
        }
      }
      before[kind].delete(key);
      detached[kind].delete(key);
    });
  }
  for (const kind of KINDS) {
    yield* forEachInSteps(before[kind], ([key, missing]) => {
      draft.remove(missing);
      if (hasOperatorState(missing)) detached[kind].set(key, missing);
    });
  }
  for (const copy of copies) {
    const found = originals[copy.kind].get(upstreamKeyOf(copy));
    if (!found) draft.remove(copy);
    else if (!isCurrent(forward, found, copy, shared) || !hasVariants(copy, '', found.variants)) {
      draft.put(discoveredEntry(forward, found, copy, shared));
    }
  }
  const listed = KINDS.flatMap((kind) => [...detached[kind].values()]);
  storeKnownCatalogs(draft, forward, catalogs, listed);
  return hidden;
}

/** Whether the lists of all catalogs are the same arrays. */
function haveSameLists([first, ...others]: readonly DiscoveredCatalog[]): boolean {
  return others.every((other) => LISTS.every((list) => other[list] === first?.[list]));
}

/** Whether the eras are the same, and all catalogs of an era have one hint for caches, as they had before. */
function haveSameHints(before: readonly KnownCatalog[], after: readonly KnownCatalog[]): boolean {
  const hints = new Map(before.map(({ era, cache }) => [era, JSON.stringify(cache)]));
  const hasSameEras = hints.size === new Set(after.map(({ era }) => era)).size;
  return hasSameEras && [...before, ...after].every(({ era, cache }) => hints.get(era) === JSON.stringify(cache));
}

function* byUpstreamKey(entries: readonly Entry[]): Steps<Record<Kind, Map<string, Entry>>> {
  const found: Record<Kind, Map<string, Entry>> = { tool: new Map(), resource: new Map(), prompt: new Map() };
  yield* forEachInSteps(entries, (entry) => found[entry.kind].set(upstreamKeyOf(entry), entry));
  return found;
}

function upstreamKeyOf({ discovered, key }: Entry): string {
  return discovered?.upstreamKey ?? key;
}

/** Stores the result of a discovery besides the entries, if it changed. */
function storeKnownCatalogs(
  draft: Draft,
  forward: Forward,
  catalogs: readonly DiscoveredCatalog[],
  detached: readonly Entry[],
): void {
  const known = catalogs.map(({ key, era, capabilities, identity, cache }) => {
    return { key, era, capabilities, identity, cache };
  });
  const before = forward.detachedOverrides ?? [];
  const areSame = detached.length === before.length && detached.every((entry, at) => entry === before[at]);
  if (areSame && JSON.stringify(known) === JSON.stringify(forward.catalogs)) return;
  // If only sets of capabilities are new, clients get the lists as before.
  const mayChangeLists = !haveSameLists(catalogs) || !haveSameHints(forward.catalogs, known);
  draft.putForward({ ...forward, catalogs: known, detachedOverrides: detached }, mayChangeLists);
}

/** Receives an object's key and text, or its variants where catalogs differ. */
type OnMerged = (key: string, json: string, merged: readonly EntryVariant[] | undefined) => void;

/**
 * Merges one list of all catalogs, by key: equal texts become one variant. The order is that of the longest catalog, of
 * which the shorter ones are usually subsets.
 */
function* forEachMerged(catalogs: readonly DiscoveredCatalog[], list: List, onMerged: OnMerged): Steps<void> {
  const [longest, ...others] = [...catalogs].sort((a, b) => b[list].length - a[list].length);
  if (!longest) return;
  if (others.every((other) => other[list] === longest[list])) {
    yield* forEachInSteps(longest[list], ({ key, json }) => onMerged(key, json, undefined));
    return;
  }
  const merged = new Map<string, { json: string; catalogs: string[] | undefined }[]>();
  for (const catalog of [longest, ...others]) {
    yield* forEachInSteps(catalog[list], ({ key, json }) => {
      const variants = merged.get(key);
      const variant = variants?.find((other) => other.json === json);
      if (variant) variant.catalogs?.push(catalog.key);
      else if (variants) variants.push({ json, catalogs: [catalog.key] });
      else merged.set(key, [{ json, catalogs: [catalog.key] }]);
    });
  }
  yield* forEachInSteps(merged, ([key, variants]) => {
    for (const variant of variants) if (variant.catalogs?.length === catalogs.length) variant.catalogs = undefined;
    onMerged(key, '', variants);
  });
}

/** One object of an upstream and its position in the list. */
interface DiscoveredItem {
  readonly kind: Kind;
  readonly template: boolean;
  readonly key: string;
  readonly variants: readonly EntryVariant[];
  readonly position: number;
}

/** Registry members of the forward's entries: the objects that its entries share already, if they have the same. */
function membersOf({ address }: Forward, entries: readonly Entry[]): InternedFields {
  const members = internedFields(address);
  const existing = (kind: Kind): JsonObject =>
    internFields(members[kind], entries.find((entry) => entry.kind === kind)?.members ?? members[kind]);
  return { tool: existing('tool'), resource: existing('resource'), prompt: existing('prompt') };
}

/** The entry of an object. `known`: the existing one, or its last state before the upstream stopped listing it. */
export function discoveredEntry(
  forward: Forward,
  item: DiscoveredItem,
  known: Entry | undefined,
  shared: InternedFields,
): Entry {
  const { kind } = item;
  const copy = known?.discovered?.copied && known;
  const { moved, renamed, approved } = known?.discovered ?? {};
  const key = known?.key ?? (kind === 'resource' ? item.key : forward.prefix + item.key);
  return render({
    kind,
    namespace: known?.namespace ?? forward.namespace,
    key,
    name: kind === 'resource' ? entryName(item, known) : (known?.name ?? key),
    registrationId: copy?.registrationId ?? forward.registrationId,
    position: item.position,
    labels: discoveredLabels(forward, item, known),
    members: known ? { ...known.members, ...shared[kind] } : shared[kind],
    discovered: {
      forward: forward.name,
      upstreamKey: item.key,
      variants: item.variants,
      overrides: known?.discovered?.overrides ?? NONE,
      ...(copy && { copied: true }),
      ...(moved && { moved }),
      ...(renamed && { renamed }),
      ...(approved && { approved }),
    },
    definition: NONE,
    disabledBy: known?.disabledBy,
  });
}

/** The operator's labels and, for resources, those of the service. */
function discoveredLabels(forward: Forward, { kind, template }: DiscoveredItem, known: Entry | undefined): Labels {
  if (kind !== 'resource') return known?.labels ?? NONE;
  const labels = Object.entries({ ...known?.labels, [ADDRESS_LABEL]: forward.address });
  const others = labels.filter(([label]) => label !== TEMPLATE_LABEL);
  return Object.fromEntries(template ? [...others, [TEMPLATE_LABEL, 'true']] : others);
}

/** The operator's name of a resource, else the upstream's. */
function entryName(item: DiscoveredItem, known: Entry | undefined): string {
  const renamed = known?.discovered?.overrides.name;
  return typeof renamed === 'string' ? renamed : resourceName(item.key, item.variants);
}

/** The upstream's name of a resource; its location when there is none. */
export function resourceName(location: string, variants: readonly EntryVariant[]): string {
  const name: unknown = JSON.parse(memberText(variants[0]?.json ?? '{}', 'name') ?? 'null');
  return typeof name === 'string' && name !== '' ? name : location;
}

/** True when discovery would not change the entry, apart from its variants. */
function isCurrent(
  forward: Forward,
  { kind, template, position }: Pick<DiscoveredItem, 'kind' | 'template' | 'position'>,
  known: Entry,
  shared: InternedFields,
): boolean {
  const { labels, members, discovered } = known;
  const isInPlace = known.position === position && known.registrationId === forward.registrationId;
  if (!isInPlace && !discovered?.copied) return false;
  if (kind === 'resource' && (labels[ADDRESS_LABEL] !== forward.address || isTemplate(known) !== template))
    return false;
  if (members === shared[kind]) return true;
  return Object.entries(shared[kind]).every(([member, value]) => members[member] === value);
}

/** Whether these are the variants of the entry; `json` is the only one, of all catalogs, unless there are `merged` ones. */
function hasVariants({ discovered }: Entry, json: string, merged: readonly EntryVariant[] | undefined): boolean {
  const variants = discovered?.variants ?? [];
  if (!merged) return variants.length === 1 && variants[0]?.json === json && variants[0].catalogs === undefined;
  return (
    merged.length === variants.length &&
    merged.every(({ json, catalogs }, at) => {
      const other = variants[at];
      if (json !== other?.json || catalogs?.length !== other.catalogs?.length) return false;
      return catalogs?.every((key, index) => key === other.catalogs?.[index]) ?? true;
    })
  );
}

/**
 * Rebuilds the catalogs of these eras from the forward's entries, in list order: for an era that cannot be discovered at
 * present, so that its entries stay beside those of the other era.
 */
export function* knownCatalogs(
  draft: Draft,
  forward: Forward,
  eras: ReadonlySet<KnownCatalog['era']>,
): Steps<DiscoveredCatalog[]> {
  const known = forward.catalogs.filter(({ era }) => eras.has(era));
  if (known.length === 0) return [];
  const all = yield* draft.entriesInSteps(forward.name);
  const originals = all.filter(({ discovered }) => !discovered?.copied);
  const entries = yield* sortInSteps(originals, (a, b) => a.position - b.position);
  const catalogs: DiscoveredCatalog[] = [];
  for (const catalog of known) {
    const lists: Record<List, ListedItem[]> = { tools: [], resources: [], templates: [], prompts: [] };
    yield* forEachInSteps(entries, (entry) => {
      const item = listedItem(entry, catalog.key);
      if (item) lists[listOf(entry)].push(item);
    });
    catalogs.push({ ...catalog, ...lists });
  }
  return catalogs;
}

function listOf(entry: Entry): List {
  if (entry.kind === 'resource') return isTemplate(entry) ? 'templates' : 'resources';
  return entry.kind === 'tool' ? 'tools' : 'prompts';
}

/** The upstream's object as this catalog lists it; undefined when it does not. */
function listedItem({ discovered }: Entry, catalog: string): ListedItem | undefined {
  const variant = discovered?.variants.find(({ catalogs }) => catalogs?.includes(catalog) ?? true);
  return discovered && variant && { key: discovered.upstreamKey, json: variant.json };
}
