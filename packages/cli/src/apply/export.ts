import { Command } from 'commander';
import type { Context } from '../context.ts';
import { readCurrentState } from './actual.ts';
import { toStateFile } from './state-of.ts';

/** `sluice export`: what the service has, as a state file on standard output. */
export function exportCommand(context: Context): Command {
  return new Command('export')
    .description('Print the service state as a desired-state file (YAML, or JSON with --output json)')
    .action(async () => {
      const state = toStateFile(await readCurrentState(await context.connect(), false));
      const output = context.output();
      if (output.format === 'json') return output.json(state);
      // The YAML writer is loaded for who needs it.
      const { toYaml } = await import('./yaml-text.ts');
      context.terminal.stdout.write(toYaml(state));
    });
}
