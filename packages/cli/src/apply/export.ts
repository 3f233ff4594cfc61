import { Command } from 'commander';
import type { Context } from '../context.ts';
import { readActual } from './actual.ts';
import { stateOf } from './state-of.ts';

/** `sluice export`: what the service has, as a state file on standard output. */
export function exportState(context: Context): Command {
  return new Command('export')
    .description('Print the service state as a desired-state file (YAML, or JSON with --output json)')
    .action(async () => {
      const state = stateOf(await readActual(await context.connect(), false));
      const output = context.output();
      if (output.format === 'json') return output.json(state);
      // The YAML writer is loaded for who needs it.
      const { yamlText } = await import('./yaml-text.ts');
      context.terminal.stdout.write(yamlText(state));
    });
}
