import type { Client } from '@sluice/contract/client';
import { type Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { readText } from '../files/read.ts';
import { sanitizeLine } from '../terminal/harmless.ts';
import { type CurrentState, readCurrentState } from './actual.ts';
import { plan } from './plan.ts';
import type { Step } from './step.ts';

/** What the options of `apply` and `diff` name. */
export interface StateOptions {
  readonly file: readonly string[];
  readonly prune?: boolean;
}

/** Adds the options that say what there shall be. */
export function addStateOptions(command: Command): Command {
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

/** A plan, and what it was made of. */
export interface PreparedPlan {
  readonly client: Client;
  readonly actual: CurrentState;
  readonly steps: readonly Step[];
}

/** Reads the state files and the service, and plans. No request is sent before the files are known to be right. */
export async function preparePlan(
  { file, prune = false }: StateOptions,
  { terminal, connect }: Context,
): Promise<PreparedPlan> {
  if (file.filter((name) => name === '-').length > 1) throw new Failure('-f -: standard input can be read once');
  const texts = [];
  for (const name of file) {
    texts.push({ name: name === '-' ? 'standard input' : name, text: await readText(name, terminal) });
  }
  // The YAML parser is loaded for who needs it.
  const { readStateFiles } = await import('./state-file.ts');
  const desired = readStateFiles(texts);
  for (const warning of desired.warnings) terminal.stderr.write(`warning: ${sanitizeLine(warning)}\n`);
  const client = await connect();
  const actual = await readCurrentState(client, prune);
  return { client, actual, steps: plan(desired, actual, { prune }) };
}
