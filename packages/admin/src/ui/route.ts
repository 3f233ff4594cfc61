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
 * back button leaves the page instead of undoing each letter of a search. With `push`, for dialogs, a value adds an address, and
 * removing it goes back to the one before, so that the back button does not open the dialog again.
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
  const isRemoved = value === '' && query.has(name);
  if (value === '') query.delete(name);
  else query.set(name, value);
  const hash = routeTo(path, Object.fromEntries(query));
  const added = addedAddresses();
  if (push && isRemoved && added > 0) {
    // Without its number, so that a second call does not leave the page.
    history.replaceState(null, '');
    history.go(-added);
    return;
  }
  if (push && value !== '') history.pushState({ added: added + 1 }, '', hash);
  else history.replaceState(history.state, '', hash);
  // Neither announces anything.
  dispatchEvent(new HashChangeEvent('hashchange'));
}

/** Number of addresses that dialogs have added since the page was opened. */
function addedAddresses(): number {
  const state: unknown = history.state;
  return typeof state === 'object' && state !== null && 'added' in state ? Number(state.added) : 0;
}

function parseRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?', 2);
  return { path: path === '' ? '/' : path, query: new URLSearchParams(query) };
}

function subscribe(onChange: () => void): () => void {
  addEventListener('hashchange', onChange);
  return () => removeEventListener('hashchange', onChange);
}
