import type { SettingsOf } from '../../config/pipeline/filter-settings.ts';
import type { Filter } from '../chain.ts';

/** What is done to the headers of an answer, in this order: some removed, some set, some added. */
export interface HeaderEdits {
  /** Lower case. */
  readonly remove: ReadonlySet<string>;
  /** Names and values, alternating; what an answer has of these names goes. */
  readonly set: readonly string[];
  readonly add: readonly string[];
}

/** Edits headers of requests that are sent on, and of all answers (decisions 1.4). */
export function headers({ request_add, response_add, response_set, response_remove }: SettingsOf<'headers'>): Filter {
  const added = request_add.flatMap(({ name, value }) => [name, value]);
  const edits: HeaderEdits = {
    remove: new Set([...response_remove, ...response_set.map(({ name }) => name)].map((name) => name.toLowerCase())),
    set: response_set.flatMap(({ name, value }) => [name, value]),
    add: response_add.flatMap(({ name, value }) => [name, value]),
  };
  const answers = edits.remove.size > 0 || edits.set.length > 0 || edits.add.length > 0;
  return (context) => {
    if (added.length > 0) context.addedHeaders = [...context.addedHeaders, ...added];
    if (answers) context.headerEdits = [...context.headerEdits, edits];
    return undefined;
  };
}
