import { ApiError } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Exit, Failure } from '../failure.ts';
import { requireConfirmation } from '../terminal/confirm.ts';
import { createStyle } from '../terminal/style.ts';
import { executeSteps } from './execute.ts';
import { addStateOptions, preparePlan, type StateOptions } from './planned.ts';
import { formatFailure, formatOutcome, formatPlan, planToJson, reportToJson } from './show.ts';
import type { Step } from './step.ts';

interface ApplyOptions extends StateOptions {
  readonly yes?: true;
  readonly dryRun?: true;
}

/** `sluice apply`: makes the service what a state file says, after showing how (docs/desired-state.md). */
export function applyCommand(context: Context): Command {
  return addStateOptions(new Command('apply'))
    .description('Apply a desired-state file')
    .option('-y, --yes', 'Skip the confirmation prompt')
    .option('--dry-run', 'Print the changes without applying them')
    .action(async (options: ApplyOptions) => {
      const { client, actual, steps } = await preparePlan(options, context);
      const output = context.output();
      if (steps.length === 0) return output.done(planToJson([]), 'nothing to do');
      if (options.dryRun || output.format === 'table') printPlan(steps, context);
      if (options.dryRun) return;
      await confirmPlan(steps, options, context);

      const { terminal } = context;
      const { host, plain } = context.options();
      const style = createStyle(terminal.stdout, terminal, plain);
      const outcomes = await executeSteps(client, steps, actual, {
        interrupted: terminal.interrupted,
        onOutcome: (outcome) => {
          if (output.format === 'table') terminal.stdout.write(`${formatOutcome(outcome, style)}\n`);
        },
      });
      if (output.format === 'json') output.json(reportToJson(outcomes, host));
      const done = outcomes.filter(({ status }) => status === 'done' || status === 'unchanged').length;
      const failed = outcomes.find((outcome) => outcome.status === 'failed');
      if (failed) {
        throw new Failure(`stopped after ${done} of ${steps.length} changes: ${formatFailure(failed, host)}`, {
          notes: [`what was done stays; ${retryHint(failed.error)}`],
        });
      }
      if (done < steps.length) throw new Exit(1);
      if (output.format === 'table') terminal.stdout.write(`${done} ${done === 1 ? 'change' : 'changes'} applied\n`);
    });
}

/** What the service refuses because of what it has, or does not have, it refuses again. */
function retryHint(error: unknown): string {
  const isFinal = error instanceof ApiError && (error.status === 404 || error.status === 409);
  return isFinal ? 'set that right before applying again' : 'apply again to do the rest';
}

function printPlan(steps: readonly Step[], context: Context): void {
  const { terminal } = context;
  const output = context.output();
  if (output.format === 'json') output.json(planToJson(steps));
  else terminal.stdout.write(formatPlan(steps, createStyle(terminal.stdout, terminal, context.options().plain)));
}

/** Asks where somebody can answer. Throws {@link Failure} when they do not agree. */
async function confirmPlan(steps: readonly Step[], { yes }: ApplyOptions, context: Context): Promise<void> {
  const { terminal } = context;
  if (yes || !terminal.stdin.isTerminal) return;
  if (context.output().format === 'json') {
    // The report alone is to be what a program reads.
    terminal.stderr.write(formatPlan(steps, createStyle(terminal.stderr, terminal, context.options().plain)));
  }
  const these = steps.length === 1 ? 'this change' : `these ${steps.length} changes`;
  await requireConfirmation(`Apply ${these}?`, terminal.stdin);
}
