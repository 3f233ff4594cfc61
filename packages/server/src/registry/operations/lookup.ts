import type { Draft } from '../draft.ts';
import type { Entry, Kind } from '../entries.ts';
import { DEFAULT_NAMESPACE, type Namespace, parseNamespace } from '../names.ts';
import type { Snapshot } from '../snapshot.ts';
import { RegistryError } from './error.ts';

/** How a request names an entry: by name, narrowed by `?namespace=` and, for resources, `?uri=`. Any text will do. */
export interface Selector {
  readonly name: string;
  readonly namespace?: string | undefined;
  readonly uri?: string | undefined;
}

/** The entries that can be found by name: those that hold their key. */
interface Holders {
  readonly namespaces: Iterable<Namespace>;
  holder(kind: Kind, namespace: Namespace, key: string): Entry | undefined;
  named(kind: Kind, namespace: Namespace, name: string): Iterable<Entry>;
}

/** The entry of a committed state that the selector means. Throws as {@link findInDraft}. */
export function findInSnapshot(snapshot: Snapshot, kind: Kind, selector: Selector): Entry {
  return find(kind, selector, {
    namespaces: snapshot.namespaces.keys(),
    holder: (of, namespace, key) => snapshot.namespaces.get(namespace)?.shelves[of].get(key),
    named: (of, namespace, name) =>
      (snapshot.namespaces.get(namespace)?.shelves[of].entries ?? []).filter((entry) => entry.name === name),
  });
}

/**
 * The entry that the selector means (decisions 2.2): in the namespace it names; without one, in `default`, else in the
 * only namespace that has it. RegistryError NOT_FOUND; CONFLICT with `namespaces` or `uris` when several are meant.
 */
export function findInDraft(draft: Draft, kind: Kind, selector: Selector): Entry {
  return find(kind, selector, holdersIn(draft));
}

/** Whether an entry's name and namespace mean others too: resources may share a name. */
export function sharesName(draft: Draft, { kind, name, namespace }: Entry): boolean {
  return named(kind, { name }, namespace, holdersIn(draft)).length > 1;
}

function holdersIn(draft: Draft): Holders {
  return {
    namespaces: draft.namespaces.keys(),
    holder: (kind, namespace, key) => draft.get(kind, namespace, key),
    *named(kind, namespace, name) {
      for (const entry of draft.entries(kind, namespace)) {
        if (entry.name === name && draft.get(kind, namespace, entry.key) === entry) yield entry;
      }
    },
  };
}

function find(kind: Kind, selector: Selector, holders: Holders): Entry {
  const { name } = selector;
  if (selector.namespace !== undefined) {
    const namespace = parseNamespace(selector.namespace);
    return only(kind, name, namespace ? named(kind, selector, namespace, holders) : []);
  }
  const inDefault = named(kind, selector, DEFAULT_NAMESPACE, holders);
  if (inDefault.length > 0) return only(kind, name, inDefault);
  const candidates = [...holders.namespaces]
    .map((namespace) => ({ namespace, found: named(kind, selector, namespace, holders) }))
    .filter(({ found }) => found.length > 0);
  if (candidates.length > 1) {
    throw new RegistryError('CONFLICT', `${kind} ${name} is in several namespaces; choose one with ?namespace=`, {
      namespaces: candidates.map(({ namespace }) => namespace),
    });
  }
  return only(kind, name, candidates[0]?.found ?? []);
}

function named(kind: Kind, { name, uri }: Selector, namespace: Namespace, holders: Holders): Entry[] {
  if (kind === 'resource') {
    return [...holders.named(kind, namespace, name)].filter((entry) => uri === undefined || entry.key === uri);
  }
  const entry = holders.holder(kind, namespace, name);
  return entry ? [entry] : [];
}

function only(kind: Kind, name: string, found: readonly Entry[]): Entry {
  const [entry] = found;
  if (!entry) throw new RegistryError('NOT_FOUND', `${kind} not found: ${name}`);
  if (found.length > 1) {
    throw new RegistryError(
      'CONFLICT',
      `several resources of namespace ${entry.namespace} are named ${name}; choose one with ?uri=`,
      {
        uris: found.map(({ key }) => key),
      },
    );
  }
  return entry;
}
