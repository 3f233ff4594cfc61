import { type components, unwrap } from '@sluice/contract/client';
import { isJsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import {
  type ExpectedRevisionOption,
  expectedRevisionOption,
  listRevisionsCommand,
  parseWholeNumber,
  showRevisionCommand,
} from '../evaluators/revisions.ts';
import { readDocument, validated } from '../files/document.ts';
import { sanitizeLine } from '../terminal/text.ts';

/** `sluice identity`: who may call, and their roles (docs/identity.md). */
export function identityCommand(context: Context): Command {
  return new Command('identity')
    .description('Manage who may call, and their roles')
    .addCommand(getCommand(context))
    .addCommand(statusCommand(context))
    .addCommand(applyCommand(context))
    .addCommand(
      new Command('revisions')
        .description('Manage identity revisions')
        .addCommand(
          listRevisionsCommand(context, 'List identity revisions, newest first', (client) =>
            unwrap(client.GET('/api/v1/identity/revisions')),
          ),
        )
        .addCommand(
          showRevisionCommand(context, 'Show a revision and its settings', (client, id) =>
            unwrap(
              id === 'active'
                ? client.GET('/api/v1/identity/revisions/active')
                : client.GET('/api/v1/identity/revisions/{id}', { params: { path: { id } } }),
            ),
          ),
        )
        .addCommand(activateCommand(context)),
    );
}

function getCommand(context: Context): Command {
  return new Command('get').description('Show the active settings').action(async () => {
    const settings = await unwrap((await context.connect()).GET('/api/v1/identity'));
    const output = context.output();
    if (output.isStructured) return output.payload(settings);
    if (settings === null) return output.done({}, 'no identity is configured: everybody may do everything');
    // Loaded on demand, because the YAML library loads slowly.
    const { toYaml } = await import('../files/yaml-text.ts');
    context.terminal.stdout.write(toYaml(settings));
  });
}

function statusCommand(context: Context): Command {
  return new Command('status')
    .description('Show warnings of the active settings, and the keys of service accounts')
    .addHelpText(
      'after',
      `
The last use of a key is that at the replica that answers, since its start. A key that is being exchanged has a row for
each hash.`,
    )
    .action(async () => {
      const status = await unwrap((await context.connect()).GET('/api/v1/identity/status'));
      const output = context.output();
      if (output.isStructured) return output.payload(status);
      for (const { path, message } of status.warnings)
        context.terminal.stderr.write(`sluice: warning: ${sanitizeLine(`${path} ${message}`)}\n`);
      output.list(
        status.keys.flatMap((key) => key.hashes.map((hash) => ({ ...key, ...hash }))),
        [
          { title: 'KEY', value: ({ name }) => name, cut: 'never' },
          { title: 'SHA256', value: ({ sha256 }) => sha256.slice(0, 8) },
          { title: 'GROUPS', value: ({ groups }) => groups.join(',') || '-', cut: 'first' },
          { title: 'NAMESPACES', value: ({ for: namespaces }) => namespaces.join(',') },
          { title: 'MANAGEMENT', value: ({ management }) => (management ? 'yes' : '-') },
          { title: 'EXPIRES', value: ({ expiresAt = '-' }) => expiresAt },
          { title: 'LAST USE', value: ({ lastUsedAt = '-' }) => lastUsedAt },
        ],
        'no keys',
      );
    });
}

/** Options of a change. */
interface ChangeOptions extends ExpectedRevisionOption {
  readonly allowLockOut?: boolean;
}

/** `--allow-lock-out`. */
export function allowLockOutOption(): Option {
  return new Option('--allow-lock-out', 'Change the identity even if the caller cannot administer afterwards');
}

function queryOf({ allowLockOut }: ChangeOptions): { readonly lock_out?: 'allow' } {
  return allowLockOut ? { lock_out: 'allow' } : {};
}

function expectedOf({ expectedRevision }: ChangeOptions): { readonly expected_revision?: number } {
  return expectedRevision === undefined ? {} : { expected_revision: expectedRevision };
}

function applyCommand(context: Context): Command {
  return new Command('apply')
    .description('Replace all settings with those in a file')
    .requiredOption(
      '-f, --file <file>',
      'The settings, or an object with "identity" (JSON or YAML), "-" for standard input',
    )
    .addOption(expectedRevisionOption())
    .addOption(allowLockOutOption())
    .addHelpText(
      'after',
      `
The settings count for the next request on all replicas when the command returns. What they do not accept any more
ends. Files of token issuers have a name and a text here; paths are read from the bootstrap file only.

Example:
  sluice identity get > identity.yaml
  sluice identity apply -f identity.yaml --expected-revision 7`,
    )
    .action(async ({ file, ...options }: ChangeOptions & { readonly file: string }) => {
      const settings = settingsIn(await readDocument(file, context.terminal));
      const identity = await validated((schemas) => schemas.identity, settings, 'identity');
      const client = await context.connect();
      const call = client.PUT('/api/v1/identity', {
        params: { query: queryOf(options) },
        body: { identity, ...expectedOf(options) },
      });
      await printChange(context, call);
    });
}

/** The settings in a document: all of it, or its member. */
function settingsIn(document: JsonValue): JsonValue {
  if (!isJsonObject(document) || Object.keys(document).length !== 1) return document;
  return document.identity ?? document;
}

function activateCommand(context: Context): Command {
  return new Command('activate')
    .description('Activate the settings of a revision, as a new revision')
    .argument('<revision>', 'Revision number', (text) => parseWholeNumber(text, 1))
    .addOption(expectedRevisionOption())
    .addOption(allowLockOutOption())
    .action(async (id: number, options: ChangeOptions) => {
      const client = await context.connect();
      const call = client.POST('/api/v1/identity/revisions/{id}/activate', {
        params: { path: { id }, query: queryOf(options) },
        body: expectedOf(options),
      });
      await printChange(context, call);
    });
}

type Change = Promise<{
  readonly data?: { readonly data: components['schemas']['Identity'] };
  readonly error?: unknown;
  readonly response: Response;
}>;

/** Prints what became of a change. */
async function printChange({ output }: Context, call: Change): Promise<void> {
  const settings = await unwrap(call);
  const [, revision] = /^(?:W\/)?"(\d+)"$/.exec((await call).response.headers.get('etag') ?? '') ?? [];
  output().done(settings, `revision ${revision ?? 'of the settings'} is active`);
}
