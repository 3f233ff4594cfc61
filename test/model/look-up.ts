import { conflict, notFound } from './request.ts';
import { byListPosition, type Entry, type Kind, type State } from './state.ts';

/**
 * Entry that a path selects: `?namespace=` selects; without it the entry in `default`, else the only match, else 409 with
 * `details.namespaces`. Several resources of one name in the namespace: 409 with `details.uris`; `?uri=` selects. Shadowed
 * entries are not found by name.
 */
export function lookUp(
  state: State,
  kind: Kind,
  name: string,
  { namespace, uri }: Readonly<Record<string, string>>,
): Entry {
  const named = state.entries
    .filter((entry) => entry.kind === kind && entry.name === name && !entry.shadowed)
    .filter((entry) => kind !== 'resource' || uri === undefined || entry.key === uri)
    .sort(byListPosition);
  const namespaces = state.namespaces
    .map((each) => each.name)
    .filter((each) => named.some((e) => e.namespace === each));
  const chosen = namespace ?? (namespaces.includes('default') ? 'default' : namespaces[0]);
  if (namespace === undefined && chosen !== 'default' && namespaces.length > 1) throw conflict({ namespaces });
  const candidates = named.filter((entry) => entry.namespace === chosen);
  if (candidates.length > 1) throw conflict({ uris: candidates.map(({ key }) => key).sort() });
  const [entry] = candidates;
  if (!entry) throw notFound(kind, name);
  return entry;
}
