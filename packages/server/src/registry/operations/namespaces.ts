import type { Draft } from '../draft.ts';
import type { Kind, Labels } from '../entries.ts';
import { DEFAULT_NAMESPACE, type Namespace, parseNamespace } from '../names.ts';
import { RegistryError } from './error.ts';
import { namespaceOf } from './submission.ts';

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
