import type { Filter } from '../chain.ts';
import { type ListParts, lists } from './lists.ts';

/** `prompts/list`: the prompts of the namespace in the path (decisions 4.7). */
export function servicePromptList(parts: ListParts): Filter {
  return lists({ 'prompts/list': 'prompt' }, parts);
}
