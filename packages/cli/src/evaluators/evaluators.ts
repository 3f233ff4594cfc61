import { unwrap } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { sanitizeLine } from '../terminal/harmless.ts';
import { applyCommand } from './apply-command.ts';
import { bindCommand, bindingsCommand, unbindCommand } from './binding-commands.ts';
import { EVALUATOR_COLUMNS } from './loaded.ts';
import { revisionsCommand } from './revisions.ts';

/** `sluice evaluators` (decisions 1.8). */
export function evaluatorsCommand(context: Context): Command {
  return new Command('evaluators')
    .description('Manage evaluators (trigger, LLM prompt, WASM action)')
    .addCommand(getCommand(context))
    .addCommand(applyCommand(context))
    .addCommand(connectionsCommand(context))
    .addCommand(bindCommand(context))
    .addCommand(unbindCommand(context))
    .addCommand(bindingsCommand(context))
    .addCommand(revisionsCommand(context));
}

function getCommand(context: Context): Command {
  return new Command('get')
    .alias('list')
    .description('List the active evaluators in execution order')
    .action(async () => {
      const client = await context.connect();
      context.output().list(await unwrap(client.GET('/api/v1/evaluators')), EVALUATOR_COLUMNS, 'no evaluators');
      const { data } = await client.GET('/api/v1/evaluators/revisions/active');
      for (const name of data?.data.skipped ?? []) {
        const warning = `warning: evaluator ${name} was left out and judges nothing: apply says why`;
        context.terminal.stderr.write(`${sanitizeLine(warning)}\n`);
      }
    });
}

function connectionsCommand(context: Context): Command {
  return new Command('connections').description('List the LLM connections that evaluators can use').action(async () => {
    const client = await context.connect();
    context
      .output()
      .list(
        await unwrap(client.GET('/api/v1/evaluators/llm-connections')),
        [{ title: 'CONNECTION', value: (name) => name, cut: 'never' }],
        'no connections to models',
      );
  });
}
