import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Emitter } from '@sluice/protocol/emitter';
import { UnavailableStoreError } from '../store.ts';
import type { Database, Transaction } from './database.ts';

/** Time after which a replica that has not renewed its lease is no longer live. */
const LEASE_MS = 4_000;
const RENEW_MS = 1_000;
/** By its own clock, which may be slower, a replica is live for a shorter time. */
const OWN_LEASE_MS = 3_000;
/** Time after which a replica that has disappeared is no longer listed. */
const LISTED = '10 minutes';
/** Time in which PostgreSQL must answer a renewal. */
const RENEWAL_MS = 2_000;
/**
 * Intervals between looks at what other replicas have confirmed. Notifications would wake all connections that listen: their number
 * would grow with the square of that of replicas.
 */
const CONFIRM_POLL = { firstMs: 2, factor: 1.5, maxMs: 50 };
/** Time after which a change that is stored is answered although PostgreSQL cannot be asked who has applied it. */
const CONFIRM_MS = 5_000;
/** Longest wait for live replicas, which may have to compile evaluators. */
const APPLY_MS = 30_000;

/** A replica, as others see it. */
export interface ReplicaRow {
  readonly id: string;
  readonly version: string;
  readonly startedAt: Date;
  readonly isLive: boolean;
  /** Commits that it has not confirmed. */
  readonly lag: number;
  /** Processors that it used on average before it last renewed its lease. */
  readonly load: number;
}

/** A replica that is no longer live. */
export interface DepartedReplica {
  readonly id: string;
  /** Where it was reached; null if it was not. */
  readonly address: string | null;
}

/** Options of {@link Membership}. */
export interface MembershipOptions {
  readonly database: Database;
  readonly version: string;
  /** Revision of this replica's state. */
  readonly applied: () => number;
  /** Resolves once this replica has the state that the database has after the call, in effect. */
  readonly catchUp: () => Promise<unknown>;
  /** Called with the latest revision whenever the lease has been renewed. */
  readonly onRevision?: (revision: number) => void;
}

/** This process as one of the replicas, which it tells regularly that it is live. */
export class Membership {
  readonly id: string = randomUUID();
  /** Where other replicas reach this one, `host:port`; undefined if they do not. Announced with the next renewal. */
  address: string | undefined = undefined;
  /** Another replica is no longer live, as of the last renewal. */
  readonly left = new Emitter<DepartedReplica>();
  readonly #options: MembershipOptions;
  #liveUntil = Number.NEGATIVE_INFINITY;
  /** The others that were live at the last renewal, and their addresses. */
  #others: ReadonlyMap<string, string | null> = new Map();
  readonly #processors = new ProcessorUse();
  #timer: NodeJS.Timeout | undefined;
  #renewing: Promise<void> | undefined;
  /** The renewal that is on its way to the database. */
  #registering: Promise<unknown> | undefined;
  #hasLeft = false;
  /** What the database has as the revision of this replica's state. */
  #announced = 0;

  constructor(options: MembershipOptions) {
    this.#options = options;
  }

  /** Whether others regard it as live. False for a process that was stopped or cut off, until it has renewed its lease. */
  get isLive(): boolean {
    return !this.#hasLeft && performance.now() < this.#liveUntil;
  }

  /** Milliseconds since it was live; 0 while it is. */
  get staleMs(): number {
    return Math.max(0, performance.now() - this.#liveUntil);
  }

  /** Renews the lease every second. `onFailure` gets the error of a renewal. */
  start(onFailure: (error: unknown) => void): void {
    this.#timer = setInterval(() => void this.renew().catch(onFailure), RENEW_MS).unref();
  }

  /**
   * Renews the lease. If it had expired, others have not waited for this replica meanwhile: it is live again once it has caught up.
   * Rejects with {@link UnavailableStoreError}, also after this replica has left.
   */
  renew(): Promise<void> {
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  async #renew(): Promise<void> {
    if (this.#hasLeft) throw new UnavailableStoreError('this replica is stopping');
    const sentAt = performance.now();
    const { database, onRevision } = this.#options;
    const registering = this.register(database);
    this.#registering = registering;
    const revision = await registering;
    onRevision?.(revision);
    if (!this.isLive) await this.#options.catchUp();
    this.#liveUntil = sentAt + OWN_LEASE_MS;
  }

  /** Renews the lease once more if a renewal is in progress, which may not know yet that another replica has left. */
  async renewAfterDeparture(): Promise<void> {
    await this.#renewing?.catch(() => undefined);
    await this.renew();
  }

  /** Writes the lease to the database, for other replicas. Returns the latest revision. */
  async register(on: Pick<Transaction, 'query'>): Promise<number> {
    const { version, applied } = this.#options;
    // In a transaction, now() is the time of its start, and it may have waited for a lock since.
    const [row] = await on.query<{ revision: string; others: Record<string, string | null> | null }>(
      `INSERT INTO sluice.replicas (id, version, address, expires, applied, load)
       VALUES ($1, $2, $5, clock_timestamp() + $3 * interval '1 millisecond', $4, $6)
       ON CONFLICT (id) DO UPDATE SET expires = excluded.expires, applied = greatest(replicas.applied, excluded.applied),
                                      address = excluded.address, load = excluded.load
       RETURNING (SELECT revision FROM sluice.state),
                 (SELECT json_object_agg(id, address) FROM sluice.replicas
                  WHERE id <> $1 AND expires > clock_timestamp()) AS others`,
      [this.id, version, LEASE_MS, applied(), this.address ?? null, this.#processors.read()],
      RENEWAL_MS,
    );
    const before = this.#others;
    this.#others = new Map(Object.entries(row?.others ?? {}));
    for (const [id, address] of before) if (!this.#others.has(id)) this.left.emit({ id, address });
    return Number(row?.revision ?? 0);
  }

  /**
   * Waits until all live replicas have applied this revision, for at most 30 s. Returns the ids of those that have not: if their
   * lease has expired, they will ask the database before they answer again. While PostgreSQL cannot be reached, nobody is known
   * to have applied it.
   */
  async confirm(revision: number): Promise<readonly string[]> {
    const deadline = performance.now() + CONFIRM_MS;
    for (;;) {
      try {
        return await this.#confirmed(revision);
      } catch (error) {
        if (!(error instanceof UnavailableStoreError)) throw error;
        if (performance.now() > deadline) return [...this.#others.keys()];
        await delay(CONFIRM_POLL.maxMs);
      }
    }
  }

  async #confirmed(revision: number): Promise<string[]> {
    const { database } = this.#options;
    const others = await database.query<{ id: string }>(
      `SELECT id, pg_notify('sluice', 'confirm ' || $2) FROM sluice.replicas
       WHERE id <> $1 AND expires > now() - interval '${LISTED}' AND applied < $2::bigint`,
      [this.id, String(revision)],
    );
    const ids = others.map(({ id }) => id);
    const deadline = performance.now() + APPLY_MS;
    let intervalMs = CONFIRM_POLL.firstMs;
    while (ids.length > 0) {
      await delay(intervalMs);
      intervalMs = Math.min(intervalMs * CONFIRM_POLL.factor, CONFIRM_POLL.maxMs);
      const [pending] = await database.query<{ live: string[] | null; all: string[] | null }>(
        `SELECT array_agg(id) FILTER (WHERE expires > now()) AS live, array_agg(id) AS all
         FROM sluice.replicas WHERE id = ANY($1) AND applied < $2`,
        [ids, revision],
      );
      if (!pending?.live || performance.now() > deadline) return pending?.all ?? [];
    }
    return [];
  }

  /** Tells the others that this replica has applied this revision, and what follows if it has. */
  async announce(revision: number): Promise<void> {
    if (this.#announced >= revision) return;
    const { database, applied } = this.#options;
    const current = applied();
    await database.query('UPDATE sluice.replicas SET applied = greatest(applied, $2) WHERE id = $1', [
      this.id,
      current,
    ]);
    this.#announced = Math.max(this.#announced, current);
  }

  /** Where another replica is reached; undefined if it is not live. While PostgreSQL cannot be reached, as last known. */
  async addressOf(replica: string): Promise<string | undefined> {
    // It may have announced its address since the last renewal, and since the one in progress was sent.
    for (let attempt = 0; attempt < 2 && !this.#others.get(replica); attempt++) {
      await this.renew().catch(() => undefined);
    }
    return this.#others.get(replica) ?? undefined;
  }

  /** Addresses of the other live replicas, as of at most a second ago. */
  get addresses(): readonly string[] {
    return [...this.#others.values()].filter((address) => address !== null);
  }

  /** The other live replicas as of at most a second ago, and their addresses: null for those that cannot be reached. */
  get others(): ReadonlyMap<string, string | null> {
    return this.#others;
  }

  /** All replicas, also those that are no longer live, for a while. */
  async list(): Promise<ReplicaRow[]> {
    const rows = await this.#options.database.query<Omit<ReplicaRow, 'lag'> & { lag: string }>(
      `SELECT id, version, started_at AS "startedAt", expires > now() AS "isLive",
              greatest(0, (SELECT revision FROM sluice.state) - applied) AS lag, load
       FROM sluice.replicas WHERE expires > now() - interval '${LISTED}' ORDER BY started_at, id`,
    );
    return rows.map((row) => ({ ...row, lag: Number(row.lag) }));
  }

  /** Leaves the replicas; its leases are free then. */
  async leave(): Promise<void> {
    clearInterval(this.#timer);
    this.#hasLeft = true;
    // It could reach the database after the removal, on another connection.
    await this.#registering?.catch(() => undefined);
    const { database } = this.#options;
    await database.query(
      `WITH removed AS (DELETE FROM sluice.replicas WHERE id = $1 OR expires < now() - interval '${LISTED}')
       SELECT pg_notify('sluice', 'left')`,
      [this.id],
      RENEWAL_MS,
    );
  }
}

/** Use of the processors by this process. */
class ProcessorUse {
  #before = process.cpuUsage();
  #at = performance.now();

  /** Processors that were used on average since the last call. */
  read(): number {
    const { user, system } = process.cpuUsage(this.#before);
    const elapsedMs = Math.max(1, performance.now() - this.#at);
    this.#before = process.cpuUsage();
    this.#at += elapsedMs;
    return (user + system) / 1_000 / elapsedMs;
  }
}
