import type { Forwards } from '../../forwards/forwards.ts';
import type { Filter } from '../chain.ts';
import { lists } from './lists.ts';

/** `prompts/list`: the prompts of the namespace in the path (decisions 4.7). */
export function servicePromptList(forwards: Pick<Forwards, 'admit'>): Filter {
  return lists({ 'prompts/list': 'prompt' }, forwards);
}
