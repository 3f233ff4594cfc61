import { readFile } from 'node:fs/promises';
import { StoreError } from '../store.ts';
import type { Database, Transaction } from './database.ts';

/** Steps of the schema, in order. A released step is never changed. */
export const MIGRATIONS = ['001-schema.sql', '002-actions.sql'];
/** Key of the advisory lock of migrations: a number that other programs on the database do not use. */
const MIGRATION_LOCK = 7_521_944_301;

/** Creates or upgrades the schema. Returns the number of its steps: more than this version has if a later one upgraded it. */
export async function migrate(database: Database): Promise<number> {
  return await database.transaction('', async (transaction) => {
    await transaction.query('SELECT pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
    await transaction.query('CREATE SCHEMA IF NOT EXISTS sluice');
    await transaction.query(
      'CREATE TABLE IF NOT EXISTS sluice.migrations (step integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())',
    );
    const step = await schemaStep(transaction);
    for (const [at, file] of MIGRATIONS.entries()) {
      if (at < step) continue;
      await transaction.query(await readFile(new URL(file, import.meta.url), 'utf8'));
      await transaction.query('INSERT INTO sluice.migrations (step) VALUES ($1)', [at + 1]);
    }
    return Math.max(step, MIGRATIONS.length);
  });
}

async function schemaStep(on: Pick<Transaction, 'query'>): Promise<number> {
  const [{ step } = { step: 0 }] = await on.query<{ step: number }>(
    'SELECT coalesce(max(step), 0) AS step FROM sluice.migrations',
  );
  return step;
}

function newerSchema(step: number): string {
  return `database schema ${step} is newer than this release supports (${MIGRATIONS.length})`;
}

/** Why a replica is read-only on a schema with this many steps. */
export function readOnlyReplica(step: number): string {
  return `${newerSchema(step)}: this replica is read-only; start the later release`;
}

/** What a database has, before it is opened. Throws {@link StoreError} for the tables of a later version. */
export async function inspect(database: Database): Promise<'nothing' | 'earlier version' | 'no records' | 'records'> {
  const [found] = await database.query<{ isThere: boolean }>(
    `SELECT to_regclass('sluice.migrations') IS NOT NULL AS "isThere"`,
  );
  const step = found?.isThere ? await schemaStep(database) : 0;
  if (step > MIGRATIONS.length) throw new StoreError(`${newerSchema(step)}: use the later release`);
  if (step === 0) return 'nothing';
  const [state] = await database.query<{ isEmpty: boolean }>(
    'SELECT NOT EXISTS (SELECT FROM sluice.records) AS "isEmpty"',
  );
  if (state?.isEmpty) return 'no records';
  return step < MIGRATIONS.length ? 'earlier version' : 'records';
}
