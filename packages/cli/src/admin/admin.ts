import { resolve } from 'node:path';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { errorReason } from '../files/system-error.ts';
import { sanitizeLine } from '../terminal/text.ts';

/** `sluice admin`: on the machine of the service. */
export function adminCommand(context: Context): Command {
  return new Command('admin').description('Recover the access of administrators').addCommand(recoverCommand(context));
}

interface RecoverOptions {
  readonly dataFolder?: string;
  readonly database?: string;
}

function recoverCommand(context: Context): Command {
  return new Command('recover')
    .description('Create a key that is admin for 15 minutes, on the machine of the service')
    .option('--data-folder <folder>', "The service's own data folder")
    .option('--database <url>', 'postgres:// URL of the replicas (default: SERVICE_POSTGRES_URL)')
    .addHelpText(
      'after',
      `
The key counts for requests to the management API from the machine of the service itself, without any proxy between.
The service logs its use as an error. A key of a data folder replaces the one before.

Examples:
  sluice admin recover --data-folder /data/registry
  SLUICE_TOKEN=slk_... sluice --host http://127.0.0.1:8080 identity apply -f identity.yaml`,
    )
    .action(async ({ dataFolder, database: url }: RecoverOptions) => {
      const { terminal, output } = context;
      if (dataFolder !== undefined && url !== undefined) throw new Failure('use either --data-folder or --database');
      const { key, expiresAt } = await explained(async (recovery) => {
        if (dataFolder !== undefined) return recovery.recoverInFolder(resolve(terminal.cwd, dataFolder));
        const database = recovery.parseDatabase({
          ...terminal.env,
          ...(url !== undefined && { SERVICE_POSTGRES_URL: url }),
        });
        const warn = (message: string) => terminal.stderr.write(`warning: ${sanitizeLine(message)}\n`);
        return recovery.recoverInDatabase(database, { warn, error: warn });
      });
      const until = new Date(expiresAt).toISOString();
      const out = output();
      if (out.isStructured) return out.payload({ key, until });
      out.show({ key, until });
      terminal.stderr.write(
        'the key counts on this machine only: --host http://127.0.0.1:<port of the management API>\n',
      );
    });
}

type Recovery = typeof import('@sluice/server/recovery');

/** Explains the errors of a store. */
async function explained<T>(work: (recovery: Recovery) => Promise<T>): Promise<T> {
  const recovery = await import('@sluice/server/recovery');
  try {
    return await work(recovery);
  } catch (error) {
    if (error instanceof recovery.ConfigError || error instanceof recovery.StoreError) {
      throw new Failure(
        error.message.replace('SERVICE_POSTGRES_URL', '--data-folder, --database or SERVICE_POSTGRES_URL'),
        { cause: error },
      );
    }
    throw new Failure(errorReason(error) ?? String(error), { cause: error });
  }
}
