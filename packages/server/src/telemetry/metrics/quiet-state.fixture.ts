import type { EvaluatorMetrics, FilterMetrics, ServiceHealth } from '@sluice/contract';
import { type MeasuredParts, stateMetrics } from '../../app/metrics.ts';
import type { ServiceEntry } from '../../registry/entries.ts';
import type { ToolCallCount } from '../tool-calls/events.ts';
import { MetricSource } from './metric-source.ts';
import type { RequestMetrics } from './request-metrics.ts';
import { type HostCounts, ServiceMetrics } from './service-metrics.ts';

/** State of a service. */
export interface ServiceState {
  filters(): Readonly<Record<string, FilterMetrics>>;
  evaluators(): readonly { readonly name: string; readonly counts: EvaluatorMetrics }[];
  activeEvaluators(): readonly { readonly name: string; readonly loaded: boolean }[];
  hosts(): HostCounts;
  entries(): { readonly tool: number; readonly resource: number; readonly prompt: number };
  namespaces(): number;
  forwards(): readonly { readonly name: string; readonly available: boolean }[];
  services(): readonly (Pick<ServiceEntry, 'name' | 'serviceType' | 'serviceSubType' | 'languageName'> & {
    readonly health: ServiceHealth;
  })[];
  interactions(): { readonly count: number; readonly bytes: number };
  toolCallEvents(): readonly ToolCallCount[];
  inFlightCalls(): number;
  tasks(): { readonly open: number; readonly ended: Readonly<Record<string, number>> };
  openStreams(): number;
  droppedLines(): number;
}

/** Metric source of an empty service, with overrides. */
export function quietSource(
  requests: Pick<RequestMetrics, 'metrics'>,
  state: Partial<ServiceState> = {},
): MetricSource {
  return new MetricSource(() => [...requests.metrics(), ...stateMetrics(quietParts(state))]);
}

/** The parts of a service in this state. */
function quietParts(state: Partial<ServiceState>): MeasuredParts {
  const nothing: ServiceState['entries'] = () => ({ tool: 0, resource: 0, prompt: 0 });
  const { entries = nothing, namespaces = () => 0, forwards = () => [], services = () => [] } = state;
  const { evaluators = () => [], activeEvaluators = () => [], tasks = () => ({ open: 0, ended: {} }) } = state;
  const { interactions = () => ({ count: 0, bytes: 0 }), toolCallEvents = () => [] } = state;
  const { inFlightCalls = () => 0, openStreams = () => 0, droppedLines = () => 0 } = state;
  const quiet = new ServiceMetrics().snapshot();
  return {
    registry: {
      current: {
        servedCount: (kind) => entries()[kind],
        namespaces: { size: namespaces() },
        forwards: new Map(forwards().map(({ name }) => [name, undefined])),
        services: {
          all: services().map((service, registrationId) => {
            return { ...service, host: '127.0.0.1', port: 1, labels: {}, registrationId };
          }),
        },
      },
    },
    forwards: {
      status: (name) => ({ available: forwards().some((forward) => forward.name === name && forward.available) }),
    },
    serviceHealth: { get: ({ name }) => services().find((service) => service.name === name)?.health ?? 'pending' },
    metrics: {
      snapshot: () => ({
        ...quiet,
        filters: state.filters?.() ?? {},
        evaluators: Object.fromEntries(evaluators().map(({ name, counts }) => [name, counts])),
        hosts: state.hosts?.() ?? quiet.hosts,
      }),
    },
    evaluators: {
      current: {
        list: activeEvaluators().flatMap(({ name, loaded }) => (loaded ? [{ definition: { name } }] : [])),
        skipped: activeEvaluators().flatMap(({ name, loaded }) => (loaded ? [] : [name])),
      },
    },
    interactions: { length: interactions().count, bodyBytes: interactions().bytes },
    toolCalls: { counts: { all: () => [...toolCallEvents()] } },
    calls: { size: inFlightCalls() },
    tasks: { openCount: tasks().open },
    taskEvents: { ended: { completed: 0, failed: 0, cancelled: 0, expired: 0, discarded: 0, ...tasks().ended } },
    openStreams: { size: openStreams() },
    droppedLines,
  };
}
