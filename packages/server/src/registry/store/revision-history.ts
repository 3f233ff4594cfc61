import type { TargetLogger } from '../../telemetry/log.ts';
import { isDiskFull } from './files.ts';
import { OutdatedRevisionsError, type RevisionStore } from './revision-store.ts';
import {
  activeRevision,
  addActive,
  addRejected,
  latestStartupRevision,
  NO_REVISIONS,
  parseContent,
  type Revision,
  type RevisionContent,
  type RevisionInput,
  type RevisionKind,
  type Revisions,
  serializeContent,
} from './revisions.ts';
import { ReadOnlyStoreError } from './store.ts';

/** Options of {@link RevisionHistory}. */
export interface RevisionHistoryOptions<Content> {
  readonly kind: RevisionKind<Content>;
  readonly store: RevisionStore;
  readonly log: Pick<TargetLogger, 'error'>;
  /** Makes the active revision effective, which another replica has stored. */
  readonly adopt: (active: Revision) => Promise<void> | void;
  /** Called when another replica has stored revisions that this one cannot read. */
  readonly onUnreadable?: () => Promise<void> | void;
  /** Returns epoch milliseconds; replaceable in tests. */
  readonly now?: (() => number) | undefined;
}

/** Content that is to become the active revision. */
export interface NewRevision {
  readonly content: RevisionContent;
  readonly actor: string | undefined;
  /** Names of the parts that could not be loaded. */
  readonly skipped?: readonly string[];
  /** Checksums of its components by path. */
  readonly components?: ReadonlyMap<string, string>;
}

/** Result of an update, with the ids of the replicas that may not have applied it. */
export type Confirmed<T> = T & { readonly unconfirmed: readonly string[] };

/**
 * The revisions of settings, of which one is active. Updates run one after the other, also those that other replicas have made; one
 * that another replica has overtaken runs again.
 */
export class RevisionHistory<Content> {
  readonly #options: RevisionHistoryOptions<Content>;
  readonly #now: () => number;
  #revisions: Revisions = NO_REVISIONS;
  #queue: Promise<unknown> = Promise.resolve();
  /** Updates that are queued or in progress. */
  #pendingUpdates = 0;
  #saving: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: RevisionHistoryOptions<Content>) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  get kind(): RevisionKind<Content> {
    return this.#options.kind;
  }

  /** Newest first. */
  get list(): readonly Revision[] {
    return this.#revisions.list.toReversed();
  }

  /** The content of the store. */
  get stored(): Revisions {
    return this.#revisions;
  }

  get active(): Revision | undefined {
    return activeRevision(this.#revisions);
  }

  /** Id of the active revision; 0 if there is none. */
  get activeId(): number {
    return this.#revisions.activeId ?? 0;
  }

  /** Whether no update is queued or in progress. */
  get isIdle(): boolean {
    return this.#pendingUpdates === 0;
  }

  get(id: number): Revision | undefined {
    return this.#revisions.list.find((revision) => revision.id === id);
  }

  /** Parses the content of a revision. */
  contentOf(revision: Pick<Revision, 'contentJson'>): Content {
    return parseContent(this.#options.kind, revision);
  }

  /** Loads the revisions, makes one effective with `start`, and follows other replicas. Throws `StoreError` and the error of `start`. */
  async open(start: () => Promise<void>): Promise<void> {
    const { store, kind, log, onUnreadable } = this.#options;
    this.#revisions = await store.load();
    await this.#retryOutdated(start);
    store.newer?.subscribe(({ revisions, waitUntil }) => {
      const onError = (error: unknown) => log.error(`${kind.what} of another replica were not loaded`, { error });
      this.#queue = this.#queue.then(() => (revisions ? this.#adopt(revisions) : onUnreadable?.())).catch(onError);
      waitUntil(this.#queue);
    });
  }

  /** Whether configured content differs from that of the latest start, which may have been stored by a release with fewer members. */
  isNewAtStart({ checksum }: RevisionContent): boolean {
    const latest = latestStartupRevision(this.#revisions);
    return !latest || serializeContent(this.contentOf(latest)).checksum !== checksum;
  }

  /** Runs an update; later ones do not wait for the confirmation of the other replicas. */
  async update<T extends object>(run: () => Promise<T>): Promise<Confirmed<T>> {
    this.#pendingUpdates++;
    const updated = this.#queue.then(() => this.#retryOutdated(run)).finally(() => this.#pendingUpdates--);
    this.#queue = updated.catch(() => {});
    return { ...(await updated), unconfirmed: (await this.#options.store.confirm?.()) ?? [] };
  }

  /** Stores a revision, which is active then. */
  async activate(revision: NewRevision): Promise<void> {
    await this.#save(addActive(this.#revisions, this.#input(revision, 'api'), revision.skipped), revision.components);
  }

  /** Stores the configured revision. On a full disk it is active without being stored, until the next update. */
  async activateAtStart(revision: NewRevision): Promise<void> {
    const revisions = addActive(this.#revisions, this.#input(revision, 'startup'), revision.skipped);
    try {
      await this.#save(revisions, revision.components);
    } catch (error) {
      if (!isDiskFull(error) && !(error instanceof ReadOnlyStoreError)) throw error;
      const reason = isDiskFull(error) ? 'disk full: ' : '';
      this.#options.log.error(`${reason}bootstrap ${this.#options.kind.what} are active but not stored`, { error });
      this.#revisions = revisions;
    }
  }

  /** Stores the components with which the active revision was loaded. */
  async saveComponents(components: ReadonlyMap<string, string>): Promise<void> {
    await this.#save(this.#revisions, components);
  }

  /** Stores a rejected revision. */
  async reject(revision: NewRevision, reason: string): Promise<void> {
    await this.#save(addRejected(this.#revisions, this.#input(revision, 'api'), reason));
  }

  /** Waits for a revision that is being stored; queued updates are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#saving;
  }

  #input({ content, actor }: NewRevision, origin: Revision['origin']): RevisionInput {
    return { content, origin, actor, at: new Date(this.#now()).toISOString() };
  }

  /** Makes the active revision of another replica active here. */
  async #adopt(revisions: Revisions): Promise<void> {
    this.#revisions = revisions;
    const { active } = this;
    if (active) await this.#options.adopt(active);
  }

  /** Runs an update, and again after those of other replicas that were stored meanwhile. */
  async #retryOutdated<T>(update: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await update();
      } catch (error) {
        if (!(error instanceof OutdatedRevisionsError)) throw error;
        await this.#adopt(error.revisions);
      }
    }
  }

  async #save(revisions: Revisions, components?: ReadonlyMap<string, string>): Promise<void> {
    if (this.#isClosed) throw new Error('service is shutting down');
    const saving = this.#options.store.save(revisions, components);
    this.#saving = saving.catch(() => {});
    await saving;
    this.#revisions = revisions;
  }
}
