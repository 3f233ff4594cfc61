import { callEntries, listed } from './entries.ts';
import { callForwards } from './forwards.ts';
import { callNamespaces } from './namespaces.ts';
import { type ApiRequest, type ApiResponse, Rejection } from './request.ts';
import { callServices } from './services.ts';
import { copyOf, type State } from './state.ts';

/**
 * Model of the management API and the registry. Returns the response to a call and the following state; the given state is not
 * modified.
 */
export function call(state: State, request: ApiRequest): { readonly state: State; readonly answer: ApiResponse } {
  const after = copyOf(state);
  try {
    return { answer: route(after, request), state: after };
  } catch (error) {
    // A rejected call has changed nothing.
    if (error instanceof Rejection) return { answer: error.answer, state };
    throw error;
  }
}

function route(state: State, request: ApiRequest): ApiResponse {
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

/** Counts of served entries. */
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
