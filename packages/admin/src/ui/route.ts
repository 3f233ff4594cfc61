import { useCallback, useState, useSyncExternalStore } from 'react';

/** What the address bar selects: `#/tools?namespace=crm&open=search`. */
export interface Route {
  /** `/tools` */
  readonly path: string;
  readonly query: URLSearchParams;
}

/** Returns the current route, and renders again when it changes. */
export function useRoute(): Route {
  return parseRoute(useSyncExternalStore(subscribe, () => location.hash));
}

/** Returns the `href` of a route; parameters that are undefined or empty are left out. */
export function routeTo(path: string, query: Readonly<Record<string, string | undefined>> = {}): string {
  const present = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const text = new URLSearchParams(present).toString();
  return `#${path}${text === '' ? '' : `?${text}`}`;
}

/**
 * Returns a parameter of the route and its setter; empty when it is missing. A change replaces the address, so that the
 * back button leaves the page instead of undoing each letter of a search; with `push` it adds one.
 */
export function useParameter(name: string, { push = false } = {}): [string, (value: string) => void] {
  const { query } = useRoute();
  const set = useCallback((value: string) => setParameter(name, value, push), [name, push]);
  return [query.get(name) ?? '', set];
}

/**
 * Returns what the form of a page is about, and its setter: an object that it changes, or 'new', which is in the address, so
 * that others can link to it; undefined while it is closed.
 */
export function useEdited<Item>(): [Item | 'new' | undefined, (edited: Item | 'new' | undefined) => void] {
  const [isNew, setNew] = useParameter('new', { push: true });
  const [item, setItem] = useState<Item>();
  const set = useCallback(
    (edited: Item | 'new' | undefined) => {
      setItem(edited === 'new' ? undefined : edited);
      setNew(edited === 'new' ? 'true' : '');
    },
    [setNew],
  );
  return [isNew === '' ? item : 'new', set];
}

function setParameter(name: string, value: string, push: boolean): void {
  const { path, query } = parseRoute(location.hash);
  if (value === '') query.delete(name);
  else query.set(name, value);
  const hash = routeTo(path, Object.fromEntries(query));
  if (push) location.hash = hash;
  else {
    history.replaceState(history.state, '', hash);
    // replaceState announces nothing.
    dispatchEvent(new HashChangeEvent('hashchange'));
  }
}

function parseRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?', 2);
  return { path: path === '' ? '/' : path, query: new URLSearchParams(query) };
}

function subscribe(onChange: () => void): () => void {
  addEventListener('hashchange', onChange);
  return () => removeEventListener('hashchange', onChange);
}
