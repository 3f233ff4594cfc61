import type { Forwards } from '../../forwards/forwards.ts';
import type { Filter } from '../chain.ts';
import { lists } from './lists.ts';

/** `tools/list`: the tools of the namespace in the path (decisions 4.7). */
export function serviceToolList(forwards: Pick<Forwards, 'admit'>): Filter {
  return lists({ 'tools/list': 'tool' }, forwards);
}
