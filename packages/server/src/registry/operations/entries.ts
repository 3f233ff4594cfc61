import { suggestUriMember } from '@sluice/contract';
import { equal } from '@sluice/protocol/json/equal';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/scan';
import { resourceName } from '../catalogues.ts';
import type { Draft } from '../draft.ts';
import { type Discovered, type Entry, FORWARD_HEADERS_LABEL, type Kind, type Labels } from '../entries.ts';
import { DEFAULT_NAMESPACE } from '../names.ts';
import { render } from '../render.ts';
import { RegistryError } from './error.ts';
import { findInDraft, type Selector } from './lookup.ts';
import { overridesOf } from './overrides.ts';
import { type Submission, type Submitted, takeApart } from './submission.ts';

/** Members of the registry's own that discovery sets and that nobody else may change (decisions 2.5 to 2.7). */
const SET_BY_DISCOVERY: Readonly<Record<Kind, readonly string[]>> = {
  tool: ['uri', 'toolType'],
  resource: ['type'],
  prompt: ['configurationURI'],
};

/**
 * Registers a hand-made tool, resource or prompt, in `default` unless it names a namespace; a missing one is created
 * (decisions 2.2). RegistryError CONFLICT when its key is held.
 */
export function createEntry(draft: Draft, kind: Kind, submission: Submission): Entry {
  const { name, location, namespace = DEFAULT_NAMESPACE, ...rest } = takeApart(kind, submission);
  const key = kind === 'resource' ? location : name;
  if (name === undefined || key === undefined) {
    throw new RegistryError('BAD_REQUEST', `a ${kind} needs a ${name === undefined ? 'name' : 'location'}`);
  }
  refuseMisspelt(kind, rest.definition, []);
  refuseHeld(draft.get(kind, namespace, key));
  const base = { kind, namespace, key, name, ...rest, discovered: undefined };
  const entry = render({ ...base, source: draft.nextSource(), position: 0 });
  draft.put(entry);
  return entry;
}

/**
 * Replaces what an operator may change on the entry that the selector means: another name renames it, another
 * namespace moves it, and on a discovered one the members that differ from the upstream's become overrides (decisions
 * 2.5). Without `namespace` it stays where it is. RegistryError as {@link findInDraft}; CONFLICT also when the new key
 * is held, or when a member that discovery sets would change.
 */
export function updateEntry(draft: Draft, kind: Kind, selector: Selector, submission: Submission): Entry {
  const entry = findInDraft(draft, kind, selector);
  const submitted = takeApart(kind, submission);
  refuseMisspelt(kind, submitted.definition, membersOf(entry));
  const next = entry.discovered
    ? changeDiscovered(entry, entry.discovered, submitted)
    : changeHandMade(entry, submitted);
  const moved = next.key !== entry.key || next.namespace !== entry.namespace;
  if (moved) {
    refuseHeld(draft.get(kind, next.namespace, next.key));
    draft.remove(entry);
  }
  draft.put(next);
  return next;
}

/** Removes the entry that the selector means and returns it. RegistryError as {@link findInDraft}. */
export function removeEntry(draft: Draft, kind: Kind, selector: Selector): Entry {
  const entry = findInDraft(draft, kind, selector);
  draft.remove(entry);
  return entry;
}

function changeHandMade(entry: Entry, submitted: Submitted): Entry {
  const { name = entry.name, location = entry.key, namespace = entry.namespace, ...rest } = submitted;
  const key = entry.kind === 'resource' ? location : name;
  return render({ ...entry, ...rest, name, namespace, key });
}

function changeDiscovered(entry: Entry, discovered: Discovered, submitted: Submitted): Entry {
  const { kind } = entry;
  const { name = entry.name, namespace = entry.namespace, definition } = submitted;
  const members: JsonObject = { ...submitted.members };
  for (const member of SET_BY_DISCOVERY[kind]) {
    const fixed = entry.members[member];
    if (fixed === undefined) continue;
    const wanted = members[member];
    if (wanted !== undefined && !equal(wanted, fixed)) throw fixedMember(entry, discovered, member);
    members[member] = fixed;
  }
  if (submitted.location !== undefined && submitted.location !== entry.key) {
    throw fixedMember(entry, discovered, 'location');
  }
  // A discovered prompt is always asked of its upstream: messages of its own would never be served.
  const { messages, ...kept } = members;
  if (messages !== undefined && !equal(messages, [])) throw fixedMember(entry, discovered, 'messages');
  const overrides = overridesOf(kind, discovered, definition);
  return render({
    ...entry,
    name,
    namespace,
    key: kind === 'resource' ? entry.key : name,
    labels: discoveredLabels(entry.labels, submitted.labels),
    members: kept,
    discovered: { ...discovered, overrides: kind === 'resource' ? withName(discovered, name, overrides) : overrides },
  });
}

/** A resource's name is no address on MCP, so that renaming it is an override like any other. */
function withName(discovered: Discovered, name: string, overrides: JsonObject): JsonObject {
  return name === resourceName(discovered.upstreamKey, discovered.offers) ? overrides : { ...overrides, name };
}

/**
 * Labels of the service's own on a discovered entry stay as they are, whatever a PUT says of them, except the one that
 * is the operator's (decisions 2.6).
 */
function discoveredLabels(current: Labels, wanted: Labels): Labels {
  const ofService = (label: string): boolean => label.startsWith('service.') && label !== FORWARD_HEADERS_LABEL;
  return Object.fromEntries([
    ...Object.entries(wanted).filter(([label]) => !ofService(label)),
    ...Object.entries(current).filter(([label]) => ofService(label)),
  ]);
}

function fixedMember({ kind, name }: Entry, { forward }: Discovered, member: string): RegistryError {
  return new RegistryError(
    'CONFLICT',
    `${member} of ${kind} ${name} is set by its forward ${forward} and cannot change`,
  );
}

/**
 * Refuses members that are meant to say where configuration and secrets are, but do not. What is there already may be:
 * an upstream's tools have what members they like, and have to be put back with them.
 */
function refuseMisspelt(kind: Kind, definition: JsonObject, there: readonly string[]): void {
  if (kind === 'prompt') return;
  for (const member of Object.keys(definition)) {
    const meant = there.includes(member) ? undefined : suggestUriMember(member);
    if (meant === undefined) continue;
    throw new RegistryError('BAD_REQUEST', `invalid ${kind}: ${member} has no effect; it is spelled ${meant}`);
  }
}

/** The members that MCP clients see of an entry, whichever of its offers they get. */
function membersOf({ served }: Entry): string[] {
  return served.flatMap(({ json }) => [...members(json)].map(({ key }) => key));
}

function refuseHeld(holder: Entry | undefined): void {
  if (!holder) return;
  const { kind, key, namespace, discovered } = holder;
  const owner = discovered ? ` (from forward ${discovered.forward})` : '';
  throw new RegistryError('CONFLICT', `${kind} already exists in namespace ${namespace}: ${key}${owner}`, {
    namespaces: [namespace],
  });
}
