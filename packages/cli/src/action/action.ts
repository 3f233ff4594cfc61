import { Command } from 'commander';
import type { Context } from '../context.ts';
import { buildCommand } from './build-command.ts';
import { initCommand } from './init-command.ts';
import { testCommand } from './test-command.ts';

/** `sluice action`: for authors of actions. None of it needs a service. */
export function actionCommand(context: Context): Command {
  return new Command('action')
    .description('Write, build and test evaluator actions')
    .addCommand(initCommand(context))
    .addCommand(buildCommand(context))
    .addCommand(testCommand(context));
}
