import type { Database } from './database.ts';

/** A component that no revision has is removed after this time: one may be about to need it. */
const UNUSED = '1 hour';
/** Time to transfer a component, which may have 30 MiB. */
const TRANSFER_MS = 60_000;

/** The components in a database. */
export function componentsIn(database: Database) {
  return {
    read: (checksum: string) => readComponent(database, checksum),
    store: (checksum: string, component: Uint8Array) => storeComponent(database, checksum, component),
    removeUnused: (except: readonly string[]) => removeComponents(database, except),
  };
}

/** Reads the component with this SHA-256; undefined if it is not stored. */
async function readComponent(database: Database, checksum: string): Promise<Buffer | undefined> {
  const sql = 'SELECT component FROM sluice.actions WHERE checksum = $1';
  const [row] = await database.query<{ component: Buffer }>(sql, [checksum], TRANSFER_MS);
  return row?.component;
}

/** Stores a component under its SHA-256, for a revision that is about to need it. */
async function storeComponent(database: Database, checksum: string, component: Uint8Array): Promise<void> {
  const touch = 'UPDATE sluice.actions SET stored_at = now() WHERE checksum = $1 RETURNING 1';
  if ((await database.query(touch, [checksum])).length > 0) return;
  await database.query(
    `INSERT INTO sluice.actions (checksum, component) VALUES ($1, $2)
     ON CONFLICT (checksum) DO UPDATE SET stored_at = now()`,
    [checksum, component],
    TRANSFER_MS,
  );
}

/** Removes the components that have not been needed for a while, except those with these checksums. */
async function removeComponents(database: Database, except: readonly string[]): Promise<void> {
  await database.query(
    `DELETE FROM sluice.actions WHERE stored_at < now() - interval '${UNUSED}' AND checksum <> ALL($1)`,
    [except],
  );
}
