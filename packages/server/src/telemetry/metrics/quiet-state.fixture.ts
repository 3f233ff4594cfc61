import type { ServiceState } from './service-metrics.ts';

/** A service in which there is nothing, but for what is given. */
export function quietState(state: Partial<ServiceState> = {}): ServiceState {
  return {
    filters: () => ({}),
    evaluators: () => [],
    entries: () => ({ tool: 0, resource: 0, prompt: 0 }),
    namespaces: () => 0,
    forwards: () => [],
    services: () => [],
    interactions: () => ({ count: 0, bytes: 0 }),
    toolCallEvents: () => [],
    callsUnderWay: () => 0,
    openStreams: () => 0,
    activeEvaluators: () => [],
    droppedLines: () => 0,
    ...state,
  };
}
