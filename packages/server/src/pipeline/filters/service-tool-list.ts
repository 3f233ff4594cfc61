import type { Filter } from '../chain.ts';
import { type ListParts, lists } from './lists.ts';

/** `tools/list`: the tools of the namespace in the path (decisions 4.7). */
export function serviceToolList(parts: ListParts): Filter {
  return lists({ 'tools/list': 'tool' }, parts);
}
