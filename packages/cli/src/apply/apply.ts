import { ApiError } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Exit, Failure } from '../failure.ts';
import { agreed } from '../terminal/confirm.ts';
import { createStyle } from '../terminal/style.ts';
import { execute } from './execute.ts';
import { addStateOptions, planned, type StateOptions } from './planned.ts';
import { failureLine, outcomeLine, planJson, planText, reportJson } from './show.ts';
import type { Step } from './step.ts';

interface ApplyOptions extends StateOptions {
  readonly yes?: true;
  readonly dryRun?: true;
}

/** `sluice apply`: makes the service what a state file says, after showing how (docs/desired-state.md). */
export function apply(context: Context): Command {
  return addStateOptions(new Command('apply'))
    .description('Apply a desired-state file')
    .option('-y, --yes', 'Skip the confirmation prompt')
    .option('--dry-run', 'Print the changes without applying them')
    .action(async (options: ApplyOptions) => {
      const { client, actual, steps } = await planned(options, context);
      const output = context.output();
      if (steps.length === 0) return output.done(planJson([]), 'nothing to do');
      if (options.dryRun || output.format === 'table') showPlan(steps, context);
      if (options.dryRun) return;
      await agree(steps, options, context);

      const { terminal } = context;
      const { host, plain } = context.options();
      const style = createStyle(terminal.stdout, terminal, plain);
      const outcomes = await execute(client, steps, actual, {
        interrupted: terminal.interrupted,
        onOutcome: (outcome) => {
          if (output.format === 'table') terminal.stdout.write(`${outcomeLine(outcome, style)}\n`);
        },
      });
      if (output.format === 'json') output.json(reportJson(outcomes, host));
      const done = outcomes.filter(({ status }) => status === 'done' || status === 'unchanged').length;
      const failed = outcomes.find((outcome) => outcome.status === 'failed');
      if (failed) {
        throw new Failure(`stopped after ${done} of ${steps.length} changes: ${failureLine(failed, host)}`, {
          notes: [`what was done stays; ${remedy(failed.error)}`],
        });
      }
      if (done < steps.length) throw new Exit(1);
      if (output.format === 'table') terminal.stdout.write(`${done} ${done === 1 ? 'change' : 'changes'} applied\n`);
    });
}

/** What the service refuses because of what it has, or does not have, it refuses again. */
function remedy(error: unknown): string {
  const isFinal = error instanceof ApiError && (error.status === 404 || error.status === 409);
  return isFinal ? 'set that right before applying again' : 'apply again to do the rest';
}

function showPlan(steps: readonly Step[], context: Context): void {
  const { terminal } = context;
  const output = context.output();
  if (output.format === 'json') output.json(planJson(steps));
  else terminal.stdout.write(planText(steps, createStyle(terminal.stdout, terminal, context.options().plain)));
}

/** Asks where somebody can answer. Throws {@link Failure} when they do not agree. */
async function agree(steps: readonly Step[], { yes }: ApplyOptions, context: Context): Promise<void> {
  const { terminal } = context;
  if (yes || !terminal.stdin.isTerminal) return;
  if (context.output().format === 'json') {
    // The report alone is to be what a program reads.
    terminal.stderr.write(planText(steps, createStyle(terminal.stderr, terminal, context.options().plain)));
  }
  const these = steps.length === 1 ? 'this change' : `these ${steps.length} changes`;
  await agreed(`Apply ${these}?`, terminal.stdin);
}
