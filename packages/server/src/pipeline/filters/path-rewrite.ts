import { httpProblem } from '../../answer/http-problem.ts';
import type { SettingsOf } from '../../config/pipeline/filter-settings.ts';
import type { Filter } from '../chain.ts';

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
