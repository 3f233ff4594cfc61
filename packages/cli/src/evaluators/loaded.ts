import type { components } from '@sluice/contract/client';
import type { Context } from '../context.ts';
import { Exit } from '../failure.ts';
import type { Column } from '../output/table.ts';
import { sanitizeLine } from '../terminal/harmless.ts';

type Evaluator = components['schemas']['Evaluator'];

/** What a row says of an evaluator. */
export const EVALUATOR_COLUMNS: readonly Column<Evaluator>[] = [
  { title: 'NAME', value: ({ name }) => name, cut: 'never' },
  { title: 'METHOD', value: ({ trigger }) => trigger.method },
  { title: 'NAMESPACE', value: ({ trigger }) => trigger.namespace ?? '-' },
  { title: 'OPERATION', value: ({ llm }) => llm.operation },
  { title: 'CONNECTION', value: ({ llm }) => llm.connection },
  { title: 'ON ERROR', value: (evaluator) => evaluator.on_error },
  { title: 'ACTION', value: ({ processor }) => processor.path },
];

/** What a change of the evaluators was answered. */
export interface LoadResult {
  readonly active: readonly Evaluator[];
  readonly warnings: readonly components['schemas']['CompileWarning'][] | undefined;
  /** Its header `ETag` names the revision. */
  readonly response: Response;
}

/**
 * Prints what is active after a change, and a line on standard error for each evaluator that was left out. Throws
 * {@link Exit} 1 when there is one: a gate that is not there must not go unnoticed by a script.
 */
export function printLoadResult({ output, terminal }: Context, { active, warnings = [], response }: LoadResult): void {
  const { list, format } = output();
  const warn = (line: string) => terminal.stderr.write(`${sanitizeLine(line)}\n`);
  list(active, EVALUATOR_COLUMNS, 'no evaluators');
  const [, revision] = /^(?:W\/)?"(\d+)"$/.exec(response.headers.get('etag') ?? '') ?? [];
  if (format === 'table' && revision !== undefined) warn(`revision ${revision} is active`);
  for (const { evaluator, path, message } of warnings) {
    warn(`warning: evaluator ${evaluator} was left out and judges nothing: ${path}: ${message}`);
  }
  if (warnings.length > 0) throw new Exit(1);
}
