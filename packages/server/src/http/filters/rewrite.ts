import type { SettingsOf } from '../../app/config/pipeline/schema.ts';
import type { Filter } from '../chain.ts';
import { httpProblem, type ResponseLike } from '../context.ts';

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

/** Longer ones are not searched: what a pattern takes may grow with more than the length. */
const LONGEST_PATH = 1_024;
const TOO_LONG = httpProblem(414, `the path has more than ${LONGEST_PATH} characters`);

/** Changes the path for all filters behind it, and for where the request is sent (decisions 1.4). */
export function pathRewrite({ strip_prefix, add_prefix, replace }: SettingsOf<'path_rewrite'>): Filter {
  const pattern = replace && new RegExp(replace.pattern, 'u');
  return (context) => {
    if (strip_prefix !== undefined) {
      if (context.path.startsWith(strip_prefix)) context.path = absolute(context.path.slice(strip_prefix.length));
    } else if (add_prefix !== undefined) {
      context.path = add_prefix.replace(/\/$/, '') + context.path;
    } else if (replace && pattern) {
      if (context.path.length > LONGEST_PATH) return TOO_LONG;
      context.path = absolute(context.path.replace(pattern, replace.replacement));
    }
    return undefined;
  };
}

/** What is left of a path may have lost its slash, and must not be taken for another host by having two. */
function absolute(path: string): string {
  return `/${path.replace(/^\/+/, '')}`;
}

/** A fixed answer, sent exactly as configured; nothing behind it is reached (decisions 1.4). */
export function staticResponse({ status, headers, body }: SettingsOf<'static_response'>): Filter {
  const outcome = {
    kind: 'plain',
    status,
    headers: headers.flatMap(({ name, value }) => [name, value]),
    body,
  } as const;
  return () => outcome;
}

/** Has the head of the answer edited, in the order of the filters that want it, when it is written. */
export function editHead(target: ResponseLike, edits: readonly HeaderEdits[]): void {
  const writeHead = target.writeHead.bind(target);
  target.writeHead = (status, headers) => writeHead(status, edits.reduce(edited, headers));
}

function edited(headers: string[], { remove, set, add }: HeaderEdits): string[] {
  const kept: string[] = [];
  for (let index = 0; index + 1 < headers.length; index += 2) {
    const [name = '', value = ''] = headers.slice(index, index + 2);
    if (!remove.has(name.toLowerCase())) kept.push(name, value);
  }
  return [...kept, ...set, ...add];
}
