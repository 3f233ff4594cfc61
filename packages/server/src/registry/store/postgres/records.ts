import { createHash } from 'node:crypto';
import type { RecordedChange, StoredChange, StoredRecord } from '../store.ts';
import type { Transaction } from './database.ts';

/** Rows read at once. */
const PAGE = 2_000;
/** A commit is written in batches that end at whichever limit comes first. */
const BATCH = { changes: 1_000, characters: 512 * 1024 };

/** The revision of the latest commit. `timeoutMs`: shorter limit for the response. */
export async function readRevision(on: Pick<Transaction, 'query'>, timeoutMs?: number): Promise<number> {
  const [state] = await on.query<{ revision: string }>('SELECT revision FROM sluice.state', [], timeoutMs);
  return Number(state?.revision ?? 0);
}

/** What a replica lacks. */
export interface NewerChanges {
  /** The revision of the latest commit. */
  readonly revision: number;
  /** The changes since, in order; undefined if some were removed, or if there are more than the limit. */
  readonly changes: readonly StoredChange[] | undefined;
}

/**
 * The revision and the changes after another one, in one statement: most replicas have to read a few changes each time.
 * `timeoutMs`: limit for the response.
 */
export async function readNewer(
  on: Pick<Transaction, 'query'>,
  after: number,
  limit: number,
  timeoutMs: number,
): Promise<NewerChanges> {
  const rows = await on.query<StoredChange & { current: string; isWhole: boolean; position: number | null }>(
    `SELECT state.revision AS current, state.pruned <= $1 AS "isWhole", position, section, id, json
     FROM sluice.state LEFT JOIN LATERAL (
       SELECT revision, position, section, id, json FROM sluice.changes
       WHERE revision > $1 ORDER BY revision, position LIMIT $2 + 1
     ) AS newer ON true ORDER BY newer.revision, position`,
    [after, limit],
    timeoutMs,
  );
  const [first] = rows;
  const isWhole = first?.isWhole === true && rows.length <= limit;
  const changes = rows
    .filter(({ position }) => position !== null)
    .map(({ section, id, json }) => ({ section, id, json }));
  return { revision: Number(first?.current ?? 0), changes: isWhole ? changes : undefined };
}

/** The state of the database that a transaction has locked. */
interface LockedState {
  /** No other replica can change it before the end of the transaction. */
  readonly revision: number;
  /** Whether the lease of this replica is valid: otherwise others may have taken over what it does. */
  readonly isLive: boolean;
  /** Steps of the schema. */
  readonly step: number;
}

/** Locks the state for a replica. */
export async function lockRevision(transaction: Transaction, replica: string): Promise<LockedState> {
  const [state] = await transaction.query<{ revision: string; isLive: boolean; step: number }>(
    `SELECT revision, (SELECT max(step) FROM sluice.migrations) AS step,
       EXISTS (SELECT FROM sluice.replicas WHERE id = $1 AND expires > clock_timestamp()) AS "isLive"
     FROM sluice.state FOR UPDATE OF state`,
    [replica],
  );
  return { revision: Number(state?.revision ?? 0), isLive: state?.isLive ?? false, step: state?.step ?? 0 };
}

/** The records of a section in the order in which they were added, page by page. */
export async function* readRecords(transaction: Transaction, section: string): AsyncGenerator<StoredRecord[]> {
  let last: readonly [string | number, number] = [-1, -1];
  for (;;) {
    const rows = await transaction.query<StoredRecord & { added: string; position: number }>(
      `SELECT id, json, added, position FROM sluice.records
       WHERE section = $1 AND (added, position) > ($2, $3) ORDER BY added, position LIMIT ${PAGE}`,
      [section, ...last],
    );
    yield rows;
    const end = rows.at(-1);
    if (end === undefined || rows.length < PAGE) return;
    last = [end.added, end.position];
  }
}

/** The changes after a revision, in order; undefined if some were removed, or if there are more than `limit`. */
export async function readChanges(
  transaction: Transaction,
  after: number,
  limit: number,
): Promise<StoredChange[] | undefined> {
  const [counted] = await transaction.query<{ count: string }>(
    'SELECT (SELECT count(*) FROM sluice.changes WHERE revision > $1) AS count FROM sluice.state WHERE pruned <= $1',
    [after],
  );
  if (counted === undefined || Number(counted.count) > limit) return undefined;
  const changes: StoredChange[] = [];
  let last: readonly [string | number, number] = [after + 1, -1];
  for (;;) {
    const rows = await transaction.query<StoredChange & { revision: string; position: number }>(
      `SELECT revision, position, section, id, json FROM sluice.changes
       WHERE (revision, position) > ($1, $2) ORDER BY revision, position LIMIT ${PAGE}`,
      last,
    );
    for (const { section, id, json } of rows) changes.push({ section, id, json });
    const end = rows.at(-1);
    if (end === undefined || rows.length < PAGE) return changes;
    last = [end.revision, end.position];
  }
}

/** Writes a commit and the notification about it. `id`: a UUID. */
export async function writeCommit(
  transaction: Transaction,
  revision: number,
  id: string,
  changes: readonly RecordedChange[],
): Promise<void> {
  let batch = new Batch(revision);
  for (const [position, change] of changes.entries()) {
    batch.add(position, change);
    if (!batch.isFull) continue;
    await batch.write(transaction);
    batch = new Batch(revision);
  }
  await batch.write(transaction);
  await transaction.query(
    `WITH state AS (UPDATE sluice.state SET revision = $1)
     INSERT INTO sluice.commits (revision, id) VALUES ($1, $2) RETURNING pg_notify('sluice', 'committed')`,
    [revision, id],
  );
}

/** Whether a commit is stored. */
export async function hasCommit(transaction: Transaction, id: string): Promise<boolean> {
  return (await transaction.query('SELECT 1 FROM sluice.commits WHERE id = $1', [id])).length > 0;
}

/** Removes expired records; all replicas do so in memory by themselves. */
export async function removeExpired(transaction: Pick<Transaction, 'query'>): Promise<void> {
  await transaction.query('DELETE FROM sluice.records WHERE expires < now()');
}

/** Removes the changes of commits that are older than `age`, an interval. */
export async function pruneChanges(transaction: Transaction, age: string): Promise<void> {
  const [last] = await transaction.query<{ revision: string | null }>(
    'SELECT max(revision) AS revision FROM sluice.commits WHERE committed_at < now() - $1::interval',
    [age],
  );
  if (!last?.revision) return;
  await transaction.query('DELETE FROM sluice.changes WHERE revision <= $1', [last.revision]);
  await transaction.query('DELETE FROM sluice.commits WHERE revision <= $1', [last.revision]);
  await transaction.query('UPDATE sluice.state SET pruned = greatest(pruned, $1)', [last.revision]);
}

/** A record as it is after the commit; without text if it is removed. */
interface RecordRow extends StoredChange {
  readonly expires?: number | undefined;
  readonly position: number;
  /** Whether it was removed by the same commit before, so that it comes after all others. */
  readonly isNew: boolean;
}

/** Some changes of a commit. */
class Batch {
  readonly #revision: number;
  readonly #changes: (StoredChange & { position: number })[] = [];
  /** The records that the changes concern, by section and id. */
  readonly #records = new Map<string, RecordRow>();
  #characters = 0;

  constructor(revision: number) {
    this.#revision = revision;
  }

  get isFull(): boolean {
    return this.#changes.length >= BATCH.changes || this.#characters >= BATCH.characters;
  }

  add(position: number, change: RecordedChange): void {
    const row = this.#setRecord(position, change);
    this.#changes.push({ position, section: row.section, id: row.id, json: row.json });
    if (change.promoted) this.#setRecord(position, change.promoted);
  }

  async write(transaction: Transaction): Promise<void> {
    if (this.#changes.length === 0) return;
    await this.#writeChanges(transaction);
    const rows = [...this.#records.values()];
    await this.#removeRecords(
      transaction,
      rows.filter(({ json, isNew }) => json === null || isNew),
    );
    await this.#putRecords(
      transaction,
      rows.filter(({ json }) => json !== null),
    );
  }

  async #writeChanges(transaction: Transaction): Promise<void> {
    const changes = this.#changes;
    await transaction.query(
      `INSERT INTO sluice.changes (revision, position, section, id, json)
       SELECT $1, * FROM unnest($2::integer[], $3::text[], $4::text[], $5::text[])`,
      [
        this.#revision,
        changes.map(({ position }) => position),
        changes.map(({ section }) => section),
        changes.map(({ id }) => id),
        changes.map(({ json }) => json),
      ],
    );
  }

  async #removeRecords(transaction: Transaction, rows: readonly RecordRow[]): Promise<void> {
    if (rows.length === 0) return;
    await transaction.query(
      `DELETE FROM sluice.records USING unnest($1::text[], $2::bytea[]) AS removed (section, id_hash)
       WHERE records.section = removed.section AND records.id_hash = removed.id_hash`,
      [rows.map(({ section }) => section), rows.map(hashOfId)],
    );
  }

  async #putRecords(transaction: Transaction, rows: readonly RecordRow[]): Promise<void> {
    if (rows.length === 0) return;
    await transaction.query(
      `INSERT INTO sluice.records (added, section, id_hash, id, json, position, expires)
       SELECT $1, section, id_hash, id, json, position, to_timestamp(expires / 1000)
       FROM unnest($2::text[], $3::bytea[], $4::text[], $5::text[], $6::integer[], $7::double precision[])
         AS put (section, id_hash, id, json, position, expires)
       ON CONFLICT (section, id_hash) DO UPDATE SET json = excluded.json, expires = excluded.expires`,
      [
        this.#revision,
        rows.map(({ section }) => section),
        rows.map(hashOfId),
        rows.map(({ id }) => id),
        rows.map(({ json }) => json),
        rows.map(({ position }) => position),
        rows.map(({ expires }) => expires ?? null),
      ],
    );
  }

  #setRecord(position: number, { section, id, json, expires }: RecordedChange): RecordRow {
    const key = `${section} ${id}`;
    const before = this.#records.get(key);
    const isNew = before !== undefined && (before.isNew || (before.json === null && json !== null));
    const row = { section, id, json, expires, position, isNew };
    this.#records.set(key, row);
    this.#characters += id.length + (json?.length ?? 0);
    return row;
  }
}

function hashOfId({ id }: RecordRow): Buffer {
  return createHash('sha256').update(id).digest();
}
