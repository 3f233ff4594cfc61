import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Exit } from '../failure.ts';
import { createStyle } from '../terminal/style.ts';
import { addStateOptions, planned, type StateOptions } from './planned.ts';
import { planJson, planText } from './show.ts';

/** Exit code when there are differences (decisions 1.8). */
const DIFFERENT = 2;

/** `sluice diff`: what `sluice apply` would do; exit code 2 when that is something. */
export function diff(context: Context): Command {
  return addStateOptions(new Command('diff'))
    .description('Show pending changes (exit code 2 if any)')
    .action(async (options: StateOptions) => {
      const { steps } = await planned(options, context);
      const { terminal } = context;
      const output = context.output();
      if (output.format === 'json') output.json(planJson(steps));
      else if (steps.length === 0) terminal.stdout.write('no differences\n');
      else terminal.stdout.write(planText(steps, createStyle(terminal.stdout, terminal, context.options().plain)));
      if (steps.length > 0) throw new Exit(DIFFERENT);
    });
}
