import { conflict, notFound } from './request.ts';
import { byPlace, type Entry, type Kind, type State } from './state.ts';

/**
 * Entry that a path selects (decisions 2.2): `?namespace=` selects; without it the entry in `default`, else the only
 * match, else 409 with `details.namespaces`. Several resources of one name in the namespace: 409 with `details.uris`;
 * `?uri=` selects. Shadowed entries are not found by name.
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
    .sort(byPlace);
  const places = state.namespaces.map((each) => each.name).filter((each) => named.some((e) => e.namespace === each));
  const chosen = namespace ?? (places.includes('default') ? 'default' : places[0]);
  if (namespace === undefined && chosen !== 'default' && places.length > 1) throw conflict({ namespaces: places });
  const meant = named.filter((entry) => entry.namespace === chosen);
  if (meant.length > 1) throw conflict({ uris: meant.map(({ key }) => key).sort() });
  const [entry] = meant;
  if (!entry) throw notFound(kind, name);
  return entry;
}
