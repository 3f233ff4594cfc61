import { Command } from 'commander';
import type { Context } from '../context.ts';
import { checkCommand } from './check-command.ts';
import { showCommand } from './show-command.ts';

/** `sluice pipeline`: looks at pipeline files (decisions 1.4) without a service. */
export function pipelineCommand(context: Context): Command {
  return new Command('pipeline')
    .description('Validate and show pipeline files')
    .addCommand(checkCommand(context))
    .addCommand(showCommand(context));
}
