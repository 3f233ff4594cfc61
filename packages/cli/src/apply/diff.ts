import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Exit } from '../failure.ts';
import { createStyle } from '../terminal/style.ts';
import { addStateOptions, preparePlan, type StateOptions } from './planned.ts';
import { formatPlan, planToJson } from './show.ts';

/** Exit code when there are differences (decisions 1.8). */
const EXIT_DIFFERENT = 2;

/** `sluice diff`: what `sluice apply` would do; exit code 2 when that is something. */
export function diffCommand(context: Context): Command {
  return addStateOptions(new Command('diff'))
    .description('Show pending changes (exit code 2 if any)')
    .action(async (options: StateOptions) => {
      const { steps } = await preparePlan(options, context);
      const { terminal } = context;
      const output = context.output();
      if (output.format === 'json') output.json(planToJson(steps));
      else if (steps.length === 0) terminal.stdout.write('no differences\n');
      else terminal.stdout.write(formatPlan(steps, createStyle(terminal.stdout, terminal, context.options().plain)));
      if (steps.length > 0) throw new Exit(EXIT_DIFFERENT);
    });
}
