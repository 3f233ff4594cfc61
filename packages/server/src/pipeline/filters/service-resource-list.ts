import type { Forwards } from '../../forwards/forwards.ts';
import type { Filter } from '../chain.ts';
import { lists } from './lists.ts';

/** `resources/list` and `resources/templates/list`: the resources of the namespace in the path (decisions 4.7). */
export function serviceResourceList(forwards: Pick<Forwards, 'admit'>): Filter {
  return lists({ 'resources/list': 'resource', 'resources/templates/list': 'resource' }, forwards);
}
