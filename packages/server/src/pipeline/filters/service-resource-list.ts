import type { Filter } from '../chain.ts';
import { type ListParts, lists } from './lists.ts';

/** `resources/list` and `resources/templates/list`: the resources of the namespace in the path (decisions 4.7). */
export function serviceResourceList(parts: ListParts): Filter {
  return lists({ 'resources/list': 'resource', 'resources/templates/list': 'resource' }, parts);
}
