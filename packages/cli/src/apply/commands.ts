import { counted } from '@sluice/protocol/text';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { Exit, Failure } from '../failure.ts';
import { readText } from '../files/read-file.ts';
import { allowLockOutOption } from '../identity/identity.ts';
import { createStyle, requireConfirmation } from '../terminal/terminal.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { readCurrentState } from './current-state.ts';
import { toStateFile } from './export-state.ts';
import { changesToJson, describeChange, formatPlan, formatResult } from './report.ts';
import { type Change, ServiceState } from './service-state.ts';

/** Options of `apply` and `diff`. */
export interface StateOptions {
  readonly file: readonly string[];
  readonly prune?: boolean;
  readonly allowLockOut?: boolean;
}

/** Adds {@link StateOptions} to a command. */
function addStateOptions(command: Command): Command {
  return command
    .addOption(
      new Option('-f, --file <file>', 'State file (YAML or JSON), "-" for standard input; may be repeated')
        .argParser((file: string, before: readonly string[] = []) => [...before, file])
        .makeOptionMandatory(),
    )
    .addOption(
      new Option('--prune', 'Delete entries that are not in the files, in the sections that the files contain'),
    )
    .addOption(allowLockOutOption());
}

/** Reads the state files. Invalid files fail before the first request. */
async function prepareState(
  { file, prune = false, allowLockOut = false }: StateOptions,
  { terminal, connect }: Context,
): Promise<ServiceState> {
  if (file.filter((name) => name === '-').length > 1) throw new Failure('-f -: standard input can be read only once');
  const texts = [];
  for (const name of file) {
    texts.push({ name: name === '-' ? 'standard input' : name, text: await readText(name, terminal) });
  }
  // Loaded on demand, because the YAML parser loads slowly.
  const { readStateFiles } = await import('./state-file.ts');
  const desired = readStateFiles(texts);
  for (const warning of desired.warnings) terminal.stderr.write(`warning: ${sanitizeLine(warning)}\n`);
  return new ServiceState(await connect(), desired, { prune, allowLockOut });
}

interface ApplyOptions extends StateOptions {
  readonly yes?: true;
  readonly allowWidening?: true;
  readonly dryRun?: true;
  readonly allowBroken?: true;
}

/** `sluice apply`: applies a desired-state file after a confirmation (docs/desired-state.md). */
export function applyCommand(context: Context): Command {
  return addStateOptions(new Command('apply'))
    .description('Apply a desired-state file')
    .option('-y, --yes', 'Skip the confirmation prompt; required without a terminal')
    .option('--allow-widening', 'Apply changes that widen the reach of agents; required for these without a terminal')
    .option('--dry-run', 'Print the changes without applying them')
    .option('--allow-broken', 'Skip evaluators whose action cannot be loaded, and load the others')
    .action(async (options: ApplyOptions) => {
      const { terminal } = context;
      const output = context.output();
      const state = await prepareState(options, context);
      for (;;) {
        const { changes, etag } = await state.plan();
        if (changes.length === 0) return output.done(changesToJson([]), 'nothing to do');
        if (options.dryRun || !output.isStructured) printPlan(changes, context);
        if (options.dryRun) return;
        await confirmPlan(changes, options, context);
        if (terminal.interrupted.aborted) throw new Exit(1);

        const results = await state.apply(etag, options);
        if (!results) {
          terminal.stderr.write('the service has changed since the plan; planning again\n');
          continue;
        }
        if (output.isStructured) return output.payload(changesToJson(results));
        const style = createStyle(terminal.stdout, terminal, context.options().plain);
        for (const result of results) terminal.stdout.write(`${formatResult(result, style)}\n`);
        terminal.stdout.write(`${counted(results.length, 'change')} applied\n`);
        return;
      }
    });
}

function printPlan(changes: readonly Change[], context: Context): void {
  const { terminal } = context;
  const output = context.output();
  if (output.isStructured) output.payload(changesToJson(changes));
  else terminal.stdout.write(formatPlan(changes, createStyle(terminal.stdout, terminal, context.options().plain)));
}

/** Asks for confirmation, unless `yes`. Throws {@link Failure} when declined, and without a terminal. */
async function confirmPlan(
  planned: readonly Change[],
  { yes, allowWidening }: ApplyOptions,
  context: Context,
): Promise<void> {
  const { terminal } = context;
  const [changes, them] = planned.length === 1 ? ['this change', 'it'] : [`these ${planned.length} changes`, 'them'];
  if (!terminal.stdin.isTerminal && !yes) {
    throw new Failure(
      `no terminal for a confirmation: use --yes to apply ${changes}, or --dry-run to print ${them} only`,
    );
  }
  if (!terminal.stdin.isTerminal && !allowWidening) rejectWidening(planned);
  if (yes) return;
  if (context.output().isStructured) {
    // stdout is reserved for the JSON or YAML report.
    terminal.stderr.write(formatPlan(planned, createStyle(terminal.stderr, terminal, context.options().plain)));
  }
  await requireConfirmation(`Apply ${changes}?`, terminal.stdin);
}

/** Throws {@link Failure} with the changes that widen the reach of agents, if there are any. */
function rejectWidening(changes: readonly Change[]): void {
  const notes = changes.flatMap((change) =>
    (change.widens ?? []).map((how) => `${describeChange(change)}: ${sanitizeLine(how)}`),
  );
  if (notes.length === 0) return;
  throw new Failure('these changes widen the reach of agents: use --allow-widening to apply them', { notes });
}

/** Exit code when there are differences. */
const EXIT_DIFFERENT = 2;

/** `sluice diff`: shows what `sluice apply` would change. */
export function diffCommand(context: Context): Command {
  return addStateOptions(new Command('diff'))
    .description('Show pending changes (exit code 2 if any)')
    .action(async (options: StateOptions) => {
      const state = await prepareState(options, context);
      const { changes } = await state.plan();
      if (changes.length === 0 && !context.output().isStructured) context.terminal.stdout.write('no differences\n');
      else printPlan(changes, context);
      if (changes.length > 0) throw new Exit(EXIT_DIFFERENT);
    });
}

/** `sluice export`: prints the service state as a state file. */
export function exportCommand(context: Context): Command {
  return new Command('export')
    .description('Print the service state as a desired-state file (YAML, or JSON with --output json)')
    .action(async () => {
      const current = await readCurrentState(await context.connect());
      const state = toStateFile(current);
      const hidden = (['evaluators', 'identity'] as const).filter((section) => current[section] === undefined);
      if (hidden.length > 0) {
        const warning = `warning: ${hidden.join(' and ')} left out: only auditors and admins may read them`;
        context.terminal.stderr.write(`${warning}\n`);
      }
      const output = context.output();
      if (output.isStructured) return output.payload(state);
      // Loaded on demand, because the YAML library loads slowly.
      const { toYaml } = await import('../files/yaml-text.ts');
      context.terminal.stdout.write(toYaml(state));
    });
}
