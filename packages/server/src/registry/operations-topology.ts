import { type ServiceInput, serviceKey } from '@sluice/contract';
import type { Draft } from './draft.ts';
import {
  byOrder,
  DEFAULT_NAMESPACE,
  type Entry,
  type Forward,
  isEnabled,
  KINDS,
  type Kind,
  type Labels,
  type Namespace,
  parseNamespace,
  type ServiceEntry,
  sameRecord,
} from './entries.ts';
import { OperationError } from './operation-error.ts';
import { namespaceOf } from './operations.ts';
import { coverCopies } from './operations-enabled.ts';
import { withDetached } from './retained.ts';
import type { NamespaceState, Snapshot } from './snapshot.ts';
import type { Steps } from './steps.ts';

/** Configuration of a forward. */
export type ForwardInput = Pick<
  Forward,
  'name' | 'address' | 'namespace' | 'labels' | 'prefix' | 'headers' | 'expose' | 'proxy' | 'compression'
>;

/** Registers a forward. OperationError CONFLICT when the name exists. */
export function addForward(draft: Draft, input: ForwardInput): Forward {
  if (draft.forwards.has(input.name)) throw new OperationError('CONFLICT', `forward already exists: ${input.name}`);
  const forward: Forward = { ...input, registrationId: draft.nextRegistrationId(), catalogs: [] };
  draft.putForward(forward);
  return forward;
}

/** Removes a forward and its discovered entries. OperationError NOT_FOUND. */
export function* removeForwardInSteps(draft: Draft, name: string): Steps<void> {
  if (!draft.forwards.has(name)) throw new OperationError('NOT_FOUND', `forward not found: ${name}`);
  yield* draft.removeForwardInSteps(name);
}

/** A namespace after an operation. */
export type LabeledNamespace = Pick<NamespaceState, 'name' | 'labels'>;

/** Creates a namespace, unless it exists. `created`: whether it did not exist. OperationError for an invalid name. */
export function createNamespace(
  draft: Draft,
  name: string,
  labels: Labels,
): { namespace: LabeledNamespace; created: boolean } {
  const namespace = namespaceOf(name);
  const known = draft.namespaces.get(namespace);
  if (known) return { namespace: known, created: false };
  draft.putNamespace(namespace, labels);
  return { namespace: { name: namespace, labels }, created: true };
}

/** Replaces a namespace's labels. OperationError NOT_FOUND. */
export function labelNamespace(draft: Draft, name: string, labels: Labels): LabeledNamespace {
  const namespace = requireNamespace(draft, name);
  draft.putNamespace(namespace, labels);
  return { name: namespace, labels };
}

/**
 * Removes a namespace. OperationError NOT_FOUND; CONFLICT for `default`, and, with the counts of its contents, for a
 * namespace that is not empty, unless `cascade`. Cascading deletes its forwards, with their discovered entries in all
 * namespaces. Entries of other forwards that were moved there are disabled, because they would otherwise return to the
 * namespace that an operator has removed them from; they are the result.
 */
export function* removeNamespaceInSteps(draft: Draft, name: string, cascade: boolean): Steps<readonly Entry[]> {
  const namespace = requireNamespace(draft, name);
  if (namespace === DEFAULT_NAMESPACE) {
    throw new OperationError('CONFLICT', 'the namespace default cannot be deleted');
  }
  const forwards = [...draft.forwards.values()].filter((forward) => forward.namespace === namespace);
  const counts = namespaceContents(draft, namespace);
  if (!cascade && Object.values(counts).some((pending) => pending > 0)) {
    throw new OperationError('CONFLICT', `namespace ${name} is not empty; ?cascade=true deletes its contents`, counts);
  }
  for (const forward of forwards) yield* draft.removeForwardInSteps(forward.name);
  const disabled = yield* returnMoved(draft, namespace);
  yield* draft.removeNamespaceInSteps(namespace);
  return disabled;
}

/** The number of forwards and entries of a namespace, with shadowed ones, which its removal removes as well. */
export function namespaceContents(draft: Draft, namespace: Namespace) {
  const count = (kind: Kind) => [...draft.entries(kind, namespace)].length;
  const forwards = draft.forwards.values().filter((forward) => forward.namespace === namespace);
  return {
    tools: count('tool'),
    resources: count('resource'),
    prompts: count('prompt'),
    forwards: [...forwards].length,
  };
}

/** Moves the entries of other forwards to the namespaces of these, disabled; absent ones as soon as they are discovered. */
function* returnMoved(draft: Draft, from: Namespace): Steps<Entry[]> {
  const entries = KINDS.flatMap((kind) => [...draft.entries(kind, from)].sort(byOrder));
  const moved = entries.filter(({ discovered }) => discovered && !discovered.copied);
  const returned = moved.map((entry) => {
    const disabled = disabledAtHome(draft, entry);
    draft.remove(entry);
    draft.put(disabled);
    return disabled;
  });
  yield* coverCopies(draft, returned);
  for (const forward of [...draft.forwards.values()]) {
    const absent = forward.detachedOverrides?.filter(({ namespace }) => namespace === from) ?? [];
    if (absent.length === 0) continue;
    const disabled = absent.map((entry) => disabledAtHome(draft, entry));
    draft.putForward(withDetached(forward, disabled));
    returned.push(...disabled);
  }
  return returned;
}

function disabledAtHome(draft: Draft, entry: Entry): Entry {
  const { discovered } = entry;
  const home = discovered && draft.forwards.get(discovered.forward);
  if (!home) throw new Error(`the forward of ${entry.kind} ${entry.key} is not registered`);
  return {
    ...entry,
    namespace: home.namespace,
    disabledBy: 'operator',
    discovered: { ...discovered, moved: undefined },
  };
}

function requireNamespace(draft: Draft, name: string): Namespace {
  const namespace = parseNamespace(name);
  if (!namespace || !draft.namespaces.has(namespace)) {
    throw new OperationError('NOT_FOUND', `namespace not found: ${name}`);
  }
  return namespace;
}

/**
 * Registers a capability service. One with the same name, type, engine and language is replaced, without a change of
 * the order of registration. `created`: whether there was none.
 */
export function registerService(draft: Draft, input: ServiceInput): { entry: ServiceEntry; created: boolean } {
  const known = draft.services.get(serviceKey(input));
  const entry: ServiceEntry = {
    ...input,
    labels: input.labels ?? {},
    registrationId: known?.registrationId ?? draft.nextRegistrationId(),
    unknown: known?.unknown,
  };
  draft.putService(entry);
  return { entry, created: known === undefined };
}

/** Removes the services of a name, or those of one type, and returns their number. OperationError NOT_FOUND when there are none. */
export function removeServices(draft: Draft, name: string, serviceType?: string): number {
  const named = draft.services.values().filter((entry) => entry.name === name);
  const found = matchingServices(name, [...named], serviceType);
  for (const entry of found) draft.removeService(entry);
  return found.length;
}

/**
 * The services of a name, or those of one type, in order of registration: the first one is used.
 * OperationError NOT_FOUND when there are none.
 */
export function findServices(snapshot: Snapshot, name: string, serviceType?: string): MatchingServices {
  return matchingServices(name, snapshot.services.named(name), serviceType);
}

/** At least one. */
type MatchingServices = readonly [ServiceEntry, ...ServiceEntry[]];

function matchingServices(
  name: string,
  named: readonly ServiceEntry[],
  serviceType: string | undefined,
): MatchingServices {
  const [first, ...others] =
    serviceType === undefined ? named : named.filter((entry) => entry.serviceType === serviceType);
  if (!first) throw new OperationError('NOT_FOUND', `service not found: ${name}`);
  return [first, ...others];
}

/** A tool and the namespace to copy it to. */
export interface ToolCopy {
  readonly tool: Entry;
  readonly targetNamespace: Namespace;
}

/**
 * Result of a copy: copied; the target namespace already has a tool of that name; or the tool no longer exists or is disabled.
 */
export type CopyOutcome = 'copied' | 'exists' | 'gone';

/**
 * Copies tools into namespaces, in order, and returns the result of each (host function `copy-tool-to-namespace`).
 * The originals stay; a missing target namespace is created. A copy has the current state of the tool, with its name,
 * labels and overrides, and a new registration id, so that it is last in lists.
 *
 * A copy of a discovered tool belongs to its forward: discovery updates it and removes it when the upstream no longer
 * lists the tool, and it is deleted with the forward. Operators can change it like any discovered entry. Discovery never
 * creates copies, so a removed copy stays removed. A copy of a manual tool is an independent manual tool. If the
 * forward later lists a tool under the key of a copy, the first registered is served as usual.
 */
export function copyTools(draft: Draft, copies: readonly ToolCopy[]): CopyOutcome[] {
  return copies.map((copy) => copyTool(draft, copy));
}

/** Size of a tool in bytes of JSON; the store needs two to three times as much per copy. */
export function definitionBytes({ discovered, rendered, members, labels }: Entry): number {
  const own = JSON.stringify([members, labels, discovered?.overrides]);
  const definitions = (discovered?.variants ?? rendered).map(({ json }) => json);
  return [own, ...definitions].reduce((bytes, text) => bytes + Buffer.byteLength(text), 0);
}

function copyTool(draft: Draft, { tool, targetNamespace }: ToolCopy): CopyOutcome {
  const source = draft.get('tool', tool.namespace, tool.key);
  if (!source || !sameRecord(source, tool) || !isEnabled(source)) return 'gone';
  if (draft.get('tool', targetNamespace, source.key)) return 'exists';
  const { discovered } = source;
  draft.put({
    ...source,
    namespace: targetNamespace,
    registrationId: draft.nextRegistrationId(),
    discovered: discovered && {
      ...discovered,
      copied: true,
      moved: undefined,
      renamed: undefined,
      approved: undefined,
    },
  });
  return 'copied';
}
