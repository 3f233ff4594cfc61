import { noEntries, type Store } from './store.ts';

/** The store of `SERVICE_PERSIST_BACKEND=none`: keeps nothing, and every commit is at once as durable as it gets. */
export function memoryStore(): Store {
  return {
    async load(restore) {
      restore({ entries: noEntries(), journal: [] });
    },
    async commit(_changes, publish) {
      publish();
    },
    async close() {},
  };
}
