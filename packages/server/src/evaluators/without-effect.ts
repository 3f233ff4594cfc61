import type { ActionResponse } from './actions/action-world.ts';
import { metadataProblem } from './metadata.ts';

/**
 * Why the service does nothing of what an action decided of a request of `method`: in both cases it passes (decisions 4.9,
 * "Outcome"). Undefined where the decision counts.
 */
export function withoutEffect(response: ActionResponse | undefined, method: string | undefined): string | undefined {
  switch (response?.kind) {
    case 'filter_tools':
      return method === 'tools/list' ? undefined : 'the request lists no tools';
    case 'set_metadata':
      return metadataProblem(response.key, response.value);
    default:
      return undefined;
  }
}
