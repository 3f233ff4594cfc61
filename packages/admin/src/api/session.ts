import { type components, unwrap } from '@sluice/contract/client';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback } from 'react';
import { useApi } from './api.ts';

type Session = components['schemas']['Session'];
/** What a caller may do. */
export type Right = Session['rights'][number];

/** Who uses the console. */
export interface Caller extends Session {
  /** Was allowed to read, and is not any more: what the page shows stays as it is. */
  readonly hasEnded: boolean;
  /** Id of who has read what the page shows; empty while nobody is known. */
  readonly reader: string;
}

const KEY = ['session'];
/** Interval in which an ended sign-in is noticed, besides by the requests of a page. */
const CHECK_MS = 60_000;

/** Returns who uses the console; undefined until that is known. */
export function useCaller(): Caller | undefined {
  const { client, connection } = useApi();
  const queries = useQueryClient();
  const { data } = useQuery({
    queryKey: KEY,
    refetchInterval: CHECK_MS,
    queryFn: async ({ signal }): Promise<Caller> => {
      const session = await unwrap(client.GET('/api/v1/session', { signal }));
      const before = queries.getQueryData<Caller>(KEY);
      const mayRead = session.rights.includes('read');
      if (mayRead) connection.onHeard();
      else connection.onLoginRequired();
      const { id } = session.principal;
      const reader = before?.reader ?? '';
      // What somebody else has read, with other rights, must not stay in memory.
      if (reader !== '' && id !== '' && id !== reader) location.reload();
      const hasEnded = !mayRead && (before?.rights.includes('read') ?? false);
      return { ...session, rights: hasEnded ? (before?.rights ?? []) : session.rights, hasEnded, reader: id || reader };
    },
  });
  return data;
}

/** Returns whether the caller may do something. While that is unknown, nothing is hidden: the service decides anyway. */
export function useMay(): (right: Right) => boolean {
  const rights = useCaller()?.rights;
  return useCallback((right) => rights?.includes(right) ?? true, [rights]);
}

/** Returns the address where the caller signs in, and comes back to this page; undefined if they cannot. */
export function signInUrl({ offer }: Session): string | undefined {
  return offer.url && `${offer.url}?return_to=${encodeURIComponent(`/admin/${location.hash}`)}`;
}
