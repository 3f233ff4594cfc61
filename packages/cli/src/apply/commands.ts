import { ApiError, type Client } from '@sluice/contract/client';
import { counted } from '@sluice/protocol/text';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { Exit, Failure } from '../failure.ts';
import { readText } from '../files/read-file.ts';
import { createStyle, requireConfirmation } from '../terminal/terminal.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { type CurrentState, readCurrentState } from './current-state.ts';
import { executeSteps } from './execute.ts';
import { toStateFile } from './export-state.ts';
import { plan } from './plan.ts';
import { describeStep, formatFailure, formatOutcome, formatPlan, planToJson, reportToJson } from './report.ts';
import type { Step } from './step.ts';

/** Options of `apply` and `diff`. */
export interface StateOptions {
  readonly file: readonly string[];
  readonly prune?: boolean;
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
    );
}

/** A plan with its inputs. */
export interface PreparedPlan {
  readonly client: Client;
  readonly actual: CurrentState;
  readonly steps: readonly Step[];
}

/** Reads the state files and the service state and plans the changes. Invalid files fail before the first request. */
async function preparePlan(
  { file, prune = false }: StateOptions,
  { terminal, connect }: Context,
): Promise<PreparedPlan> {
  if (file.filter((name) => name === '-').length > 1) throw new Failure('-f -: standard input can be read only once');
  const texts = [];
  for (const name of file) {
    texts.push({ name: name === '-' ? 'standard input' : name, text: await readText(name, terminal) });
  }
  // Loaded on demand, because the YAML parser loads slowly.
  const { readStateFiles } = await import('./state-file.ts');
  const desired = readStateFiles(texts);
  for (const warning of desired.warnings) terminal.stderr.write(`warning: ${sanitizeLine(warning)}\n`);
  const client = await connect();
  const actual = await readCurrentState(client, { others: prune, evaluators: desired.sections.has('evaluators') });
  return { client, actual, steps: plan(desired, actual, { prune }) };
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
      const { client, actual, steps } = await preparePlan(options, context);
      const output = context.output();
      if (steps.length === 0) return output.done(planToJson([]), 'nothing to do');
      if (options.dryRun || !output.isStructured) printPlan(steps, context);
      if (options.dryRun) return;
      await confirmPlan(steps, options, context);

      const { terminal } = context;
      const { host, plain } = context.options();
      const style = createStyle(terminal.stdout, terminal, plain);
      const outcomes = await executeSteps(client, steps, actual, {
        interrupted: terminal.interrupted,
        allowBroken: options.allowBroken ?? false,
        onOutcome: (outcome) => {
          if (!output.isStructured) terminal.stdout.write(`${formatOutcome(outcome, style)}\n`);
        },
      });
      if (output.isStructured) output.payload(reportToJson(outcomes, host));
      const done = outcomes.filter(({ status }) => status === 'done' || status === 'unchanged').length;
      const failed = outcomes.find((outcome) => outcome.status === 'failed');
      if (failed) {
        throw new Failure(
          `stopped after ${done} of ${counted(steps.length, 'change')}: ${formatFailure(failed, host)}`,
          {
            notes: [`completed changes are kept; ${retryHint(failed.error)}`],
          },
        );
      }
      if (done < steps.length) throw new Exit(1);
      if (!output.isStructured) terminal.stdout.write(`${counted(done, 'change')} applied\n`);
    });
}

/** Conflicts and missing entries do not go away by themselves. */
function retryHint(error: unknown): string {
  const isFinal = error instanceof ApiError && (error.status === 404 || error.status === 409);
  return isFinal ? 'fix this before applying again' : 'apply again to continue';
}

function printPlan(steps: readonly Step[], context: Context): void {
  const { terminal } = context;
  const output = context.output();
  if (output.isStructured) output.payload(planToJson(steps));
  else terminal.stdout.write(formatPlan(steps, createStyle(terminal.stdout, terminal, context.options().plain)));
}

/** Asks for confirmation, unless `yes`. Throws {@link Failure} when declined, and without a terminal. */
async function confirmPlan(
  steps: readonly Step[],
  { yes, allowWidening }: ApplyOptions,
  context: Context,
): Promise<void> {
  const { terminal } = context;
  const [changes, them] = steps.length === 1 ? ['this change', 'it'] : [`these ${steps.length} changes`, 'them'];
  if (!terminal.stdin.isTerminal && !yes) {
    throw new Failure(
      `no terminal for a confirmation: use --yes to apply ${changes}, or --dry-run to print ${them} only`,
    );
  }
  if (!terminal.stdin.isTerminal && !allowWidening) rejectWidening(steps);
  if (yes) return;
  if (context.output().isStructured) {
    // stdout is reserved for the JSON or YAML report.
    terminal.stderr.write(formatPlan(steps, createStyle(terminal.stderr, terminal, context.options().plain)));
  }
  await requireConfirmation(`Apply ${changes}?`, terminal.stdin);
}

/** Throws {@link Failure} with the steps that widen the reach of agents, if there are any. */
function rejectWidening(steps: readonly Step[]): void {
  const notes = steps.flatMap((step) =>
    (step.widens ?? []).map((how) => `${describeStep(step)}: ${sanitizeLine(how)}`),
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
      const { steps } = await preparePlan(options, context);
      const { terminal } = context;
      const output = context.output();
      if (output.isStructured) output.payload(planToJson(steps));
      else if (steps.length === 0) terminal.stdout.write('no differences\n');
      else terminal.stdout.write(formatPlan(steps, createStyle(terminal.stdout, terminal, context.options().plain)));
      if (steps.length > 0) throw new Exit(EXIT_DIFFERENT);
    });
}

/** `sluice export`: prints the service state as a state file. */
export function exportCommand(context: Context): Command {
  return new Command('export')
    .description('Print the service state as a desired-state file (YAML, or JSON with --output json)')
    .action(async () => {
      const state = toStateFile(await readCurrentState(await context.connect(), { others: false, evaluators: true }));
      const output = context.output();
      if (output.isStructured) return output.payload(state);
      // Loaded on demand, because the YAML library loads slowly.
      const { toYaml } = await import('../files/yaml-text.ts');
      context.terminal.stdout.write(toYaml(state));
    });
}
