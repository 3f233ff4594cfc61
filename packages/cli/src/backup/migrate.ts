import { join, resolve } from 'node:path';
import type { MigrationCounts } from '@sluice/server/migrate';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { errorReason } from '../files/system-error.ts';
import { sanitizeLine } from '../terminal/text.ts';

interface MigrateOptions {
  readonly from?: string;
  readonly to?: string;
  readonly database?: string;
  readonly dryRun?: boolean;
}

/** `sluice migrate`: takes the state of a stopped service from a folder into a database, or back. */
export function migrateCommand(context: Context): Command {
  return new Command('migrate')
    .description('Move the registry, evaluator revisions and sessions of a stopped service to PostgreSQL, or back')
    .option('--from <folder>', 'Data folder to write into an empty database')
    .option('--to <folder>', 'Empty folder to write a database into')
    .option('--database <url>', 'postgres:// URL (default: SERVICE_POSTGRES_URL)')
    .option('--dry-run', 'Check and count, without changing anything')
    .addHelpText(
      'after',
      `
Everything is written, or nothing, and the source stays as it is. A password in the command line can be seen by other
users of the machine: use SERVICE_POSTGRES_URL, or a file that SERVICE_POSTGRES_PASSWORD_FILE names.

Examples:
  sluice migrate --from /data/registry --database postgres://sluice@db/sluice --dry-run
  sluice migrate --to /data/registry`,
    )
    .action(async ({ from, to, database: url, dryRun = false }: MigrateOptions) => {
      const { terminal } = context;
      const given = from ?? to;
      if (given === undefined || (from !== undefined && to !== undefined)) {
        throw new Failure('either --from or --to is required');
      }
      const migration = await import('@sluice/server/migrate');
      const folder = resolve(terminal.cwd, given);
      const warn = (message: string) => terminal.stderr.write(`warning: ${sanitizeLine(message)}\n`);
      const counts = await explained(url, async () => {
        const database = migration.parseDatabase({
          ...terminal.env,
          ...(url !== undefined && { SERVICE_POSTGRES_URL: url }),
        });
        const options = { folder, database, dryRun, log: { warn, error: warn } };
        return from === undefined ? migration.migrateToFolder(options) : migration.migrateToDatabase(options);
      });
      const target = from === undefined ? folder : 'the database';
      const sentence = `${dryRun ? 'would migrate' : 'migrated'} to ${target}: ${listed(counts)}`;
      context.output().done({ folder, direction: from === undefined ? 'to' : 'from', dryRun, counts }, sentence);
      if (!dryRun) terminal.stderr.write(`${sanitizeLine(keyNote(folder, from !== undefined))}\n`);
    });
}

/** How sessions continue: their ids are sealed with a key, which is never in the database. */
function keyNote(folder: string, isFolderSource: boolean): string {
  const file = join(folder, 'session.key');
  return isFolderSource
    ? `sessions continue if SERVICE_SESSION_KEY of the replicas is the key of the service: the content of ${file}, unless it was set`
    : `sessions continue if the service has the SERVICE_SESSION_KEY of the replicas`;
}

function listed(counts: MigrationCounts): string {
  return Object.entries(counts)
    .map(([kind, count]) => `${kind.replaceAll('_', ' ')} ${count}`)
    .join(', ');
}

/** Explains the errors of a migration. `url`: that of the command line. */
async function explained<T>(url: string | undefined, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { ConfigError, StoreError } = await import('@sluice/server/migrate');
    if (error instanceof ConfigError) {
      const message = url === undefined ? error.message : error.message.replace('SERVICE_POSTGRES_URL', '--database');
      throw new Failure(message, { cause: error });
    }
    if (error instanceof StoreError) throw new Failure(error.message, { cause: error });
    const reason = errorReason(error);
    if (reason === undefined) throw error;
    const at = error instanceof Error && 'path' in error ? `${error.path}: ` : '';
    throw new Failure(`${at}${reason}`, { cause: error });
  }
}
