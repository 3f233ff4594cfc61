import { unwrap } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { readDocument } from '../files/document.ts';
import { type ExpectedRevisionOption, expectedRevisionOption } from './expected-revision.ts';
import { printLoadResult } from './loaded.ts';
import { parseEvaluators } from './read-evaluators.ts';

/** `sluice evaluators apply -f <file>` (decisions 1.8). */
export function applyCommand(context: Context): Command {
  return new Command('apply')
    .description('Replace all evaluators with those in a file')
    .requiredOption(
      '-f, --file <file>',
      'List of evaluators, or an object with "evaluators" (JSON or YAML), "-" for standard input',
    )
    .addOption(expectedRevisionOption())
    .addHelpText(
      'after',
      `
An evaluator whose action does not compile is skipped; the others are loaded, and the exit code is 1.
An empty list removes all evaluators. Action paths are paths on the host of the service.

Example:
  sluice evaluators get --output json > evaluators.json
  sluice evaluators apply -f evaluators.json --expected-revision 7`,
    )
    .action(async ({ file, expectedRevision }: ExpectedRevisionOption & { readonly file: string }) => {
      const read = parseEvaluators(await readDocument(file, context.terminal), file === '-' ? 'standard input' : file);
      const body = { ...read, ...(expectedRevision !== undefined && { expected_revision: expectedRevision }) };
      const client = await context.connect();
      const call = client.PUT('/api/v1/evaluators', { body });
      const active = await unwrap(call);
      const { data, response } = await call;
      printLoadResult(context, { active, warnings: data?.warnings, response });
    });
}
