import { callEntries, listed } from './entries.ts';
import { callForwards } from './forwards.ts';
import { callNamespaces } from './namespaces.ts';
import { type Answer, type ApiRequest, Refusal } from './request.ts';
import { callServices } from './services.ts';
import { copyOf, type State } from './state.ts';

/**
 * The management API and the registry behind it, as decisions 2.2 to 2.8 and 4.1 to 4.3 say that they are. Returns what
 * the call is answered and the state after it; the one given stays as it is.
 */
export function call(state: State, request: ApiRequest): { readonly state: State; readonly answer: Answer } {
  const after = copyOf(state);
  try {
    return { answer: route(after, request), state: after };
  } catch (error) {
    // A refused call has changed nothing.
    if (error instanceof Refusal) return { answer: error.answer, state };
    throw error;
  }
}

function route(state: State, request: ApiRequest): Answer {
  switch (request.collection) {
    case 'namespaces':
      return callNamespaces(state, request);
    case 'forwards':
      return callForwards(state, request);
    case 'tools':
      return callEntries(state, 'tool', request);
    case 'resources':
      return callEntries(state, 'resource', request);
    case 'prompts':
      return callEntries(state, 'prompt', request);
    case 'services':
      return callServices(state, request);
    case 'statistics':
      return { status: 200, data: statistics(state) };
  }
}

/** Counts of what is served (decisions 4.4). */
function statistics(state: State) {
  const served = (kind: 'tool' | 'resource' | 'prompt') =>
    listed(state, kind).filter(({ shadowed }) => !shadowed).length;
  return {
    toolsCount: served('tool'),
    resourcesCount: served('resource'),
    promptsCount: served('prompt'),
    forwardsCount: state.forwards.length,
    dataStoresCount: 0,
  };
}
