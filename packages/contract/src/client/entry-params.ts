import { isDotName } from '../values.ts';

/**
 * Parameters of a request for the tool, resource or prompt with a name, as `params` of a {@link Client}. The names `.` and `..`,
 * which some upstreams use and a path cannot contain, are in the query.
 */
export function entryParams<Query extends object>(name: string, query: Query) {
  return isDotName(name) ? { path: { name: '-' }, query: { ...query, name } } : { path: { name }, query };
}
