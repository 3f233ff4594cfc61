import type { ServiceState } from './metric-source.ts';

/** Metric source of an empty service, with overrides. */
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
    inFlightCalls: () => 0,
    tasks: () => ({ open: 0, ended: {} }),
    openStreams: () => 0,
    activeEvaluators: () => [],
    hosts: () => ({ running: 0, idle: 0, spare: 0, waiting: 0, started: 0, ended: 0 }),
    droppedLines: () => 0,
    ...state,
  };
}
