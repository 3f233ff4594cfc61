import { type Client, type components, unwrap } from '@sluice/contract/client';
import { Command, InvalidArgumentError, Option } from 'commander';
import type { Context } from '../context.ts';
import { Exit } from '../failure.ts';
import { readDocument } from '../files/document.ts';
import type { Column } from '../output/table.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { parseEvaluators } from './read-evaluators.ts';

/** Makes a change conditional on the active revision. */
export interface ExpectedRevisionOption {
  readonly expectedRevision?: number;
}

/** `--expected-revision <n>`. */
export function expectedRevisionOption(): Option {
  return new Option('--expected-revision <n>', 'Fail unless this revision is active; 0 for none').argParser((text) =>
    parseWholeNumber(text, 0),
  );
}

/** Parses an integer of at least `least`. `or` describes other accepted values. */
export function parseWholeNumber(text: string, least: number, or = ''): number {
  const number = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(number) && number >= least) return number;
  throw new InvalidArgumentError(`Expected a whole number from ${least}${or}.`);
}

type Evaluator = components['schemas']['ListedEvaluator'];

/** Columns of an evaluator list. */
export const EVALUATOR_COLUMNS: readonly Column<Evaluator>[] = [
  { title: 'NAME', value: ({ name }) => name, cut: 'never' },
  { title: 'METHOD', value: ({ trigger }) => trigger.method },
  { title: 'NAMESPACE', value: ({ trigger }) => trigger.namespace ?? '-' },
  { title: 'OPERATION', value: ({ llm }) => llm.operation },
  { title: 'CONNECTION', value: ({ llm }) => llm.connection },
  { title: 'ON ERROR', value: (evaluator) => evaluator.on_error },
  { title: 'ACTION', value: ({ processor }) => processor.path },
];

/** Response to a change of the evaluators. */
export interface LoadResult {
  readonly active: readonly Evaluator[];
  readonly warnings: readonly components['schemas']['EvaluatorWarning'][] | undefined;
  /** Its `ETag` header contains the revision. */
  readonly response: Response;
}

/** Formats a warning of the service about a submitted evaluator. */
export function formatWarning({ evaluator, path, code, message }: components['schemas']['EvaluatorWarning']): string {
  if (code === 'TRIGGER_NEVER_MATCHES') return `warning: evaluator ${evaluator} may never match: ${message}`;
  const reason = path === undefined ? message : `${path}: ${message}`;
  return `warning: evaluator ${evaluator} was skipped and is not active: ${reason}`;
}

/**
 * Prints the active evaluators after a change and the warnings of the service. Throws {@link Exit} 1 when one was skipped:
 * scripts must notice a missing gate.
 */
function printLoadResult({ output, terminal }: Context, { active, warnings = [], response }: LoadResult): void {
  const { list, format } = output();
  const warn = (line: string) => terminal.stderr.write(`${sanitizeLine(line)}\n`);
  list(active, EVALUATOR_COLUMNS, 'no evaluators');
  const [, revision] = /^(?:W\/)?"(\d+)"$/.exec(response.headers.get('etag') ?? '') ?? [];
  if (format === 'table' && revision !== undefined) warn(`revision ${revision} is active`);
  for (const warning of warnings) warn(formatWarning(warning));
  if (warnings.some(({ code }) => code !== 'TRIGGER_NEVER_MATCHES')) throw new Exit(1);
}

interface ApplyOptions extends ExpectedRevisionOption {
  readonly file: string;
  readonly allowBroken?: boolean;
}

/** `sluice evaluators apply -f <file>`. */
export function applyCommand(context: Context): Command {
  return new Command('apply')
    .description('Replace all evaluators with those in a file')
    .requiredOption(
      '-f, --file <file>',
      'List of evaluators, or an object with "evaluators" (JSON or YAML), "-" for standard input',
    )
    .addOption(expectedRevisionOption())
    .option('--allow-broken', 'Skip evaluators whose action cannot be loaded, and load the others')
    .addHelpText(
      'after',
      `
If an action cannot be loaded, nothing changes. With --allow-broken its evaluator is skipped, the others are loaded,
and the exit code is 1. Requests that a skipped evaluator would block are not blocked.
An empty list removes all evaluators. Action paths are paths on the host of the service.

Example:
  sluice evaluators get --output json > evaluators.json
  sluice evaluators apply -f evaluators.json --expected-revision 7`,
    )
    .action(async ({ file, expectedRevision, allowBroken = false }: ApplyOptions) => {
      const read = await parseEvaluators(
        await readDocument(file, context.terminal),
        file === '-' ? 'standard input' : file,
      );
      const body = { ...read, ...(expectedRevision !== undefined && { expected_revision: expectedRevision }) };
      const client = await context.connect();
      const call = client.PUT('/api/v1/evaluators', {
        params: { query: { strict: allowBroken ? 'false' : 'true' } },
        body,
      });
      const active = await unwrap(call);
      const { data, response } = await call;
      printLoadResult(context, { active, warnings: data?.warnings, response });
    });
}

/** `sluice evaluators revisions`. */
export function revisionsCommand(context: Context): Command {
  return new Command('revisions')
    .description('Manage evaluator revisions')
    .addCommand(
      listRevisionsCommand(context, 'List evaluator revisions, newest first', (client) =>
        unwrap(client.GET('/api/v1/evaluators/revisions')),
      ),
    )
    .addCommand(
      showRevisionCommand(context, 'Show a revision and its evaluators', (client, id) =>
        unwrap(
          id === 'active'
            ? client.GET('/api/v1/evaluators/revisions/active')
            : client.GET('/api/v1/evaluators/revisions/{id}', { params: { path: { id } } }),
        ),
      ),
    )
    .addCommand(activateCommand(context));
}

/** `list` of the revisions of settings. */
export function listRevisionsCommand(
  context: Context,
  description: string,
  read: (client: Client) => Promise<readonly components['schemas']['EvaluatorRevision'][]>,
): Command {
  return new Command('list').description(description).action(async () => {
    context.output().list(
      await read(await context.connect()),
      [
        { title: 'REVISION', value: ({ id }) => JSON.stringify(id) },
        { title: 'STATUS', value: ({ status }) => status },
        { title: 'CREATED', value: (revision) => revision.created_at },
        { title: 'ACTIVATED', value: ({ activated_at = '-' }) => activated_at },
        { title: 'ORIGIN', value: ({ origin }) => origin },
        { title: 'BY', value: ({ actor = '-' }) => actor },
        { title: 'CHECKSUM', value: ({ checksum }) => checksum },
        { title: 'REJECTED BECAUSE', value: ({ failure_reason = '-' }) => failure_reason, cut: 'first' },
      ],
      'no revisions',
    );
  });
}

/** `show <revision>` of settings. */
export function showRevisionCommand(
  context: Context,
  description: string,
  read: (client: Client, id: 'active' | number) => Promise<object>,
): Command {
  return new Command('show')
    .description(description)
    .argument('<revision>', 'Revision number, or "active"', (text) =>
      text === 'active' ? text : parseWholeNumber(text, 1, ', or active'),
    )
    .action(async (id: 'active' | number) => {
      context.output().show(await read(await context.connect(), id));
    });
}

function activateCommand(context: Context): Command {
  return new Command('activate')
    .description('Activate the evaluators of a revision, as a new revision')
    .argument('<revision>', 'Revision number', (text) => parseWholeNumber(text, 1))
    .addOption(expectedRevisionOption())
    .action(async (id: number, { expectedRevision }: ExpectedRevisionOption) => {
      const client = await context.connect();
      const call = client.POST('/api/v1/evaluators/revisions/{id}/activate', {
        params: { path: { id } },
        body: { ...(expectedRevision !== undefined && { expected_revision: expectedRevision }) },
      });
      const active = await unwrap(call);
      const { data, response } = await call;
      printLoadResult(context, { active, warnings: data?.warnings, response });
    });
}
