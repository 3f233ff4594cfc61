import { Turns } from '@sluice/protocol/turns';
import type { Steps } from '../../steps.ts';
import type { StoredChange } from '../record-log.ts';
import {
  type Change,
  type Commit,
  type Conflict,
  type Loaded,
  type Newer,
  noEntries,
  putsOf,
  SECTIONS,
  type Section,
  type SharedRecord,
  type SharedStore,
} from '../store.ts';
import type { Follower, SharedLog } from './shared-log.ts';

/** The registry in PostgreSQL, which several replicas share (docs/replicas.md). */
export class PostgresStore implements SharedStore, Follower {
  readonly sections = SECTIONS;
  readonly #log: SharedLog;
  #onNewer: (newer: Newer) => Promise<void> = async () => undefined;
  /** Set while the state is loaded for the first time. */
  #restore: ((loaded: Loaded) => Steps<void>) | undefined;

  constructor(log: SharedLog) {
    this.#log = log;
  }

  follow(apply: (newer: Newer) => Promise<void>): void {
    this.#onNewer = apply;
  }

  async load(restore: (loaded: Loaded) => Steps<void>): Promise<void> {
    this.#restore = restore;
    await this.#log.add(this);
    this.#restore = undefined;
  }

  commit(commit: Commit<Section>, conflict?: Conflict<Section>): Promise<void> {
    return this.#log.commit(commit, conflict);
  }

  refresh(): Promise<void> {
    return this.#log.refresh();
  }

  confirm(): Promise<readonly string[]> {
    return this.#log.confirm();
  }

  async apply(stored: readonly StoredChange[]): Promise<void> {
    const changes: Change[] = [];
    for (const { section, id, json } of stored) {
      if (!isSection(section)) continue;
      changes.push(json === null ? { op: 'remove', section, id } : { op: 'put', section, id, json });
    }
    await this.#onNewer({ kind: 'changes', changes });
  }

  async reload(records: ReadonlyMap<string, readonly SharedRecord[]>): Promise<void> {
    if (!this.#restore) return this.#onNewer({ kind: 'state', records });
    const puts = SECTIONS.flatMap((section) => putsOf(section, records.get(section)));
    await new Turns().run(this.#restore({ entries: noEntries(), journal: [puts] }));
  }

  /** The log is closed by its owner. */
  async close(): Promise<void> {}
}

function isSection(section: string): section is Section {
  return SECTIONS.some((known) => known === section);
}
