import { type ServiceInput, serviceKey } from '@sluice/contract';
import type { Draft } from './draft.ts';
import {
  DEFAULT_NAMESPACE,
  type Entry,
  type Forward,
  type Kind,
  type Labels,
  type Namespace,
  parseNamespace,
  type ServiceEntry,
  sameRecord,
} from './entries.ts';
import { namespaceOf, RegistryError } from './operations.ts';
import type { Snapshot } from './snapshot.ts';

/** A forward as it is registered. */
export interface ForwardInput {
  readonly name: string;
  readonly address: string;
  readonly namespace: Namespace;
  readonly labels: Labels;
  /** Empty for none. */
  readonly prefix: string;
}

/** Registers a forward of which nothing is known yet. RegistryError CONFLICT when the name is taken. */
export function addForward(draft: Draft, input: ForwardInput): Forward {
  if (draft.forwards.has(input.name)) throw new RegistryError('CONFLICT', `forward already exists: ${input.name}`);
  const forward: Forward = { ...input, source: draft.nextSource(), catalogues: [] };
  draft.putForward(forward);
  return forward;
}

/**
 * Makes the registry hold this forward as the bootstrap file has it: an equal one stays as it is, with all that is known
 * of it, one that differs is replaced (decisions 1.3).
 */
export function bootstrapForward(draft: Draft, input: ForwardInput): void {
  const known = draft.forwards.get(input.name);
  if (known && sameForward(known, input)) return;
  if (known) draft.removeForward(input.name);
  addForward(draft, input);
}

/** Removes a forward with all that it discovered (decisions 4.3). RegistryError NOT_FOUND. */
export function removeForward(draft: Draft, name: string): void {
  if (!draft.forwards.has(name)) throw new RegistryError('NOT_FOUND', `forward not found: ${name}`);
  draft.removeForward(name);
}

function sameForward(known: Forward, input: ForwardInput): boolean {
  const relevant = ({ address, namespace, prefix, labels }: ForwardInput): string =>
    JSON.stringify([address, namespace, prefix, Object.entries(labels).sort()]);
  return relevant(known) === relevant(input);
}

/** A namespace as an operation leaves it. */
export interface LabelledNamespace {
  readonly name: Namespace;
  readonly labels: Labels;
}

/**
 * Creates a namespace; one that exists stays as it is (decisions 4.1). `created` says whether there was none.
 * RegistryError on a bad name.
 */
export function createNamespace(
  draft: Draft,
  name: string,
  labels: Labels,
): { namespace: LabelledNamespace; created: boolean } {
  const namespace = namespaceOf(name);
  const known = draft.namespaces.get(namespace);
  if (known) return { namespace: known, created: false };
  draft.putNamespace(namespace, labels);
  return { namespace: { name: namespace, labels }, created: true };
}

/** Replaces a namespace's labels (decisions 2.3). RegistryError NOT_FOUND. */
export function labelNamespace(draft: Draft, name: string, labels: Labels): LabelledNamespace {
  const namespace = existing(draft, name);
  draft.putNamespace(namespace, labels);
  return { name: namespace, labels };
}

/**
 * Removes a namespace and returns the names of the forwards that went with it. RegistryError NOT_FOUND; CONFLICT for
 * `default`, and with the counts of what it holds for one that is not empty, unless `cascade` (decisions 4.2). With it
 * the namespace's forwards go as if they were deleted: with all that they discovered, wherever it was moved to.
 */
export function removeNamespace(draft: Draft, name: string, cascade: boolean): string[] {
  const namespace = existing(draft, name);
  if (namespace === DEFAULT_NAMESPACE) {
    throw new RegistryError('CONFLICT', 'the namespace default cannot be deleted');
  }
  const forwards = [...draft.forwards.values()].filter((forward) => forward.namespace === namespace);
  const counts = {
    tools: count(draft, 'tool', namespace),
    resources: count(draft, 'resource', namespace),
    prompts: count(draft, 'prompt', namespace),
    forwards: forwards.length,
  };
  if (!cascade && Object.values(counts).some((held) => held > 0)) {
    throw new RegistryError('CONFLICT', `namespace ${name} is not empty; ?cascade=true deletes what it holds`, counts);
  }
  for (const forward of forwards) draft.removeForward(forward.name);
  draft.removeNamespace(namespace);
  return forwards.map((forward) => forward.name);
}

/** Shadowed entries count too: they would go as well. */
function count(draft: Draft, kind: Kind, namespace: Namespace): number {
  return [...draft.entries(kind, namespace)].length;
}

function existing(draft: Draft, name: string): Namespace {
  const namespace = parseNamespace(name);
  if (!namespace || !draft.namespaces.has(namespace)) {
    throw new RegistryError('NOT_FOUND', `namespace not found: ${name}`);
  }
  return namespace;
}

/**
 * Registers a capability service. One of the same name, type, engine and language is replaced, and keeps its place in
 * the order of registration (decisions 2.2, 4.1); `created` says whether there was none.
 */
export function registerService(draft: Draft, input: ServiceInput): { entry: ServiceEntry; created: boolean } {
  const id = serviceKey(input);
  const known = draft.servicesNamed(input.name).find((other) => serviceKey(other) === id);
  const entry: ServiceEntry = {
    name: input.name,
    host: input.host,
    port: input.port,
    serviceType: input.serviceType,
    serviceSubType: input.serviceSubType,
    languageName: input.languageName,
    labels: input.labels ?? {},
    id: input.id,
    source: known?.source ?? draft.nextSource(),
    unknown: known?.unknown,
  };
  draft.putService(entry);
  return { entry, created: known === undefined };
}

/**
 * Removes all services of the name, or those of one type, which may be any text; returns how many (decisions 4.2).
 * RegistryError NOT_FOUND when there are none.
 */
export function removeServices(draft: Draft, name: string, serviceType?: string): number {
  const found = foundOf(name, draft.servicesNamed(name), serviceType);
  draft.removeServices(name, found);
  return found.length;
}

/**
 * The services of the name, or those of one type, in order of registration: the first is the one that is used
 * (decisions 4.2, 4.10). RegistryError NOT_FOUND when there are none.
 */
export function findServices(snapshot: Snapshot, name: string, serviceType?: string): Found {
  return foundOf(name, snapshot.services.named(name), serviceType);
}

/** At least one. */
type Found = readonly [ServiceEntry, ...ServiceEntry[]];

function foundOf(name: string, named: readonly ServiceEntry[], serviceType: string | undefined): Found {
  const [first, ...others] =
    serviceType === undefined ? named : named.filter((entry) => entry.serviceType === serviceType);
  if (!first) throw new RegistryError('NOT_FOUND', `service not found: ${name}`);
  return [first, ...others];
}

/** A tool, as it was found, and where it is to be offered too. */
export interface ToolCopy {
  readonly tool: Entry;
  readonly targetNamespace: Namespace;
}

/**
 * What became of a copy: it was made; the target namespace has a tool of that name, which stays as it is; or the tool is
 * no longer where it was found.
 */
export type CopyOutcome = 'copied' | 'held' | 'gone';

/**
 * Copies tools into namespaces, one after the other, and says what became of each (decisions 2.11,
 * `copy-tool-to-namespace`). The sources stay; a target namespace that is missing is created. What is copied is the tool
 * as it is now, under its name, with labels and what an operator changed on it; in lists it stands behind all that was
 * registered before.
 *
 * A copy of a discovered tool is its forward's: discovery renews it and removes it once the upstream does not offer the
 * tool any more, and it goes with the forward. An operator may change it like any discovered entry. One that an operator
 * removed stays away until it is copied again, and so does one that the upstream has taken back for a while: discovery
 * makes no copies. A copy of a hand-made tool is a hand-made tool of its own. Where the forward comes to offer a tool
 * under the key of a copy, its own copies included, the first registered keeps the key as ever (decisions 2.2).
 */
export function copyTools(draft: Draft, copies: readonly ToolCopy[]): CopyOutcome[] {
  return copies.map((copy) => copyTool(draft, copy));
}

/** How much there is to copy of a tool, in bytes of JSON: the store takes two to three times that for each copy. */
export function definitionBytes({ discovered, served, members, labels }: Entry): number {
  const own = JSON.stringify([members, labels, discovered?.overrides]);
  const definitions = (discovered?.offers ?? served).map(({ json }) => json);
  return [own, ...definitions].reduce((bytes, text) => bytes + Buffer.byteLength(text), 0);
}

function copyTool(draft: Draft, { tool, targetNamespace }: ToolCopy): CopyOutcome {
  const source = draft.get('tool', tool.namespace, tool.key);
  if (!source || !sameRecord(source, tool)) return 'gone';
  if (draft.get('tool', targetNamespace, source.key)) return 'held';
  const { discovered } = source;
  draft.put({
    ...source,
    namespace: targetNamespace,
    source: draft.nextSource(),
    discovered: discovered && { ...discovered, copied: true },
  });
  return 'copied';
}
