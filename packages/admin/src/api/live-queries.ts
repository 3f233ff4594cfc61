import { type QueryClient, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { useApi } from './api.ts';

/** Changes that arrive within this time cause one request. */
const COMBINED_MS = 300;
/** Interval of requests for what has no events, and for everything while there is no event stream. */
const POLL_MS = 5_000;

/** First members of the keys of all queries: each kind of object of the API is one. */
const KINDS = ['forwards', 'services', 'evaluators', 'namespaces', 'tools', 'resources', 'prompts', 'tasks'] as const;
export type Kind = (typeof KINDS)[number];

/** Reloads what events of the service report as changed, or everything regularly while none arrive. Retries failures. */
export function useLiveQueries(): void {
  const queries = useQueryClient();
  const { events } = useApi();
  useEffect(() => {
    const changes = new CombinedChanges(queries);
    const onChange = (...kinds: readonly Kind[]) => changes.add(kinds);
    const stops = [
      events.listen('forwards', () => onChange('forwards')),
      events.listen('services', () => onChange('services')),
      events.listen('evaluators', () => onChange('evaluators')),
      events.listen('registry', (data) => onChange(...KINDS.filter((kind) => isMember(data, kind)))),
      events.listen('missed', () => onChange(...KINDS)),
    ];
    const poll = setInterval(() => {
      if (document.hidden) return;
      void queries.invalidateQueries({ queryKey: ['other'] });
      if (!events.isOpen) onChange(...KINDS);
      else void queries.refetchQueries({ predicate: ({ state }) => state.status === 'error' });
    }, POLL_MS);
    return () => {
      for (const stop of stops) stop();
      changes.clear();
      clearInterval(poll);
    };
  }, [queries, events]);
}

/** Loads the tasks again when one of them has changed: they may be many, and only pages that show them should cost that. */
export function useLiveTasks(): void {
  const queries = useQueryClient();
  const { events } = useApi();
  useEffect(() => {
    const changes = new CombinedChanges(queries);
    const stop = events.listen('tasks', () => changes.add(['tasks']));
    return () => {
      stop();
      changes.clear();
    };
  }, [queries, events]);
}

/** Loads the queries of changed kinds again, with one request for changes that arrive within {@link COMBINED_MS}. */
class CombinedChanges {
  readonly #queries: QueryClient;
  readonly #changed = new Set<Kind>();
  #timer: ReturnType<typeof setTimeout> | undefined = undefined;

  constructor(queries: QueryClient) {
    this.#queries = queries;
  }

  add(kinds: readonly Kind[]): void {
    for (const kind of kinds) this.#changed.add(kind);
    this.#timer ??= setTimeout(() => {
      for (const kind of this.#changed) void this.#queries.invalidateQueries({ queryKey: [kind] });
      this.clear();
    }, COMBINED_MS);
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#changed.clear();
  }
}

function isMember(data: unknown, kind: Kind): boolean {
  return typeof data === 'object' && data !== null && kind in data;
}
