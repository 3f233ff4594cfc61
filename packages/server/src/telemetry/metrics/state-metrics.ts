import type { EvaluatorMetrics, FilterMetrics, ServiceHealth } from '@sluice/contract';
import type { ToolCallCount } from '../tool-calls/tool-call-counts.ts';
import type { EvaluatorFailure } from './evaluator-counters.ts';
import type { Metric, NumberMetric, Series } from './metric.ts';

/** What can be asked of the service at any time. */
export interface ServiceState {
  /** Counters of filters, by name. */
  filters(): Readonly<Record<string, FilterMetrics>>;
  /** Counters of evaluators that requests have met since the start. */
  evaluators(): readonly EvaluatorState[];
  /** The evaluators that are active, and those that were left out of them. */
  activeEvaluators(): readonly { readonly name: string; readonly loaded: boolean }[];
  /** What is served, shadowed entries not counted. */
  entries(): { readonly tool: number; readonly resource: number; readonly prompt: number };
  namespaces(): number;
  forwards(): readonly { readonly name: string; readonly available: boolean }[];
  /** One of each name, type, engine and language. */
  services(): readonly RegisteredService[];
  /** Interactions that are kept, and the bytes of their bodies. */
  interactions(): { readonly count: number; readonly bytes: number };
  /** Events of tool calls since the start. */
  toolCallEvents(): readonly ToolCallCount[];
  callsUnderWay(): number;
  /** Streams that stay open until somebody ends them. */
  openStreams(): number;
  /** Lines that the log has lost. */
  droppedLines(): number;
}

/** An evaluator and what it has done. */
export interface EvaluatorState {
  readonly name: string;
  readonly counts: EvaluatorMetrics;
  /** Runs without a decision. */
  readonly failures: Readonly<Record<EvaluatorFailure, number>>;
}

/** A capability service and how it is. */
export interface RegisteredService {
  readonly name: string;
  readonly serviceType: string;
  readonly serviceSubType?: string | undefined;
  readonly languageName?: string | undefined;
  readonly health: ServiceHealth;
}

/** The state of the service as metrics. */
export function stateMetrics(state: ServiceState): Metric[] {
  const { count, bytes } = state.interactions();
  return [
    ...filterMetrics(Object.entries(state.filters())),
    ...evaluatorMetrics(state.evaluators()),
    {
      name: 'sluice.evaluator.loaded',
      description: 'Whether the evaluator judges requests: 1, or 0 for one that was left out',
      unit: '{evaluator}',
      kind: 'gauge',
      series: state.activeEvaluators().map(({ name, loaded }) => ({
        attributes: { 'sluice.evaluator': name },
        value: loaded ? 1 : 0,
      })),
    },
    {
      name: 'sluice.registry.entries',
      description: 'Tools, resources and prompts that are served',
      unit: '{entry}',
      kind: 'level',
      series: Object.entries(state.entries()).map(([kind, value]) => ({
        attributes: { 'sluice.entry.kind': kind },
        value,
      })),
    },
    level('sluice.registry.namespaces', '{namespace}', 'Namespaces', state.namespaces()),
    {
      name: 'sluice.forward.available',
      description: 'Whether the forward can be used: 1 or 0',
      unit: '{forward}',
      kind: 'gauge',
      series: state.forwards().map(({ name, available }) => ({
        attributes: { 'sluice.forward': name },
        value: available ? 1 : 0,
      })),
    },
    {
      name: 'sluice.service.healthy',
      description: 'Whether the capability service is healthy: 1 or 0; none before its first probe',
      unit: '{service}',
      kind: 'gauge',
      series: state.services().flatMap(healthOf),
    },
    level('sluice.interaction.records', '{interaction}', 'Interactions that are kept', count),
    level('sluice.interaction.size', 'By', 'Bodies of the interactions that are kept', bytes),
    {
      name: 'sluice.tool_call.events',
      description: 'Events of tool calls',
      unit: '{event}',
      kind: 'counter',
      series: state.toolCallEvents().map(({ transport, type, category, count: value }) => ({
        attributes: {
          'sluice.transport': transport,
          'sluice.event.type': type,
          ...(category !== undefined && { 'error.type': category }),
        },
        value,
      })),
    },
    level(
      'sluice.call.active',
      '{call}',
      'Calls under way, to upstreams and capability services',
      state.callsUnderWay(),
    ),
    {
      name: 'sluice.log.dropped',
      description: 'Log lines that were lost because nobody read them in time',
      unit: '{line}',
      kind: 'counter',
      series: [{ attributes: {}, value: state.droppedLines() }],
    },
    level('sluice.stream.active', '{stream}', 'Streams that stay open until somebody ends them', state.openStreams()),
  ];
}

function filterMetrics(filters: readonly (readonly [string, FilterMetrics])[]): Metric[] {
  return [
    {
      name: 'sluice.filter.requests',
      description: 'Requests that filters have had, by what they did with them',
      unit: '{request}',
      kind: 'counter',
      series: filters.flatMap(([filter, counts]) => {
        const outcomes = {
          continue: counts.requests_continue,
          reject: counts.requests_reject,
          other: counts.requests_other,
          error: counts.errors,
        };
        return Object.entries(outcomes).map(([outcome, value]) => ({
          attributes: { 'sluice.filter': filter, 'sluice.filter.outcome': outcome },
          value,
        }));
      }),
    },
    {
      name: 'sluice.filter.duration',
      description: 'Time for which filters have had requests',
      unit: 's',
      kind: 'counter',
      series: filters.map(([filter, { duration }]) => ({
        attributes: { 'sluice.filter': filter },
        value: duration.total_ms / 1000,
      })),
    },
  ];
}

function evaluatorMetrics(evaluators: readonly EvaluatorState[]): Metric[] {
  const each = (of: (evaluator: EvaluatorState) => Readonly<Record<string, number>>, attribute: string) =>
    evaluators.flatMap((evaluator) =>
      Object.entries(of(evaluator)).map(([key, value]) => ({
        attributes: { 'sluice.evaluator': evaluator.name, [attribute]: key },
        value,
      })),
    );
  const one = (of: (counts: EvaluatorMetrics) => number) =>
    evaluators.map(({ name, counts }) => ({ attributes: { 'sluice.evaluator': name }, value: of(counts) }));
  return [
    {
      name: 'sluice.evaluator.decisions',
      description: 'Requests that evaluators have judged, by what they decided',
      unit: '{request}',
      kind: 'counter',
      series: each(({ counts }) => counts.decisions, 'sluice.evaluator.decision'),
    },
    {
      name: 'sluice.evaluator.failures',
      description: 'Requests that evaluators could not judge, by what failed',
      unit: '{request}',
      kind: 'counter',
      series: each(({ failures }) => failures, 'error.type'),
    },
    {
      name: 'sluice.evaluator.llm.calls',
      description: 'Calls to LLMs, by what came of them',
      unit: '{call}',
      kind: 'counter',
      series: each(
        ({ counts: { llm } }) => ({ success: llm.calls_success, failure: llm.calls_failure }),
        'sluice.evaluator.llm.outcome',
      ),
    },
    {
      name: 'sluice.evaluator.llm.duration',
      description: 'Time for which evaluators have waited for LLMs',
      unit: 's',
      kind: 'counter',
      series: one(({ llm }) => llm.duration.total_ms / 1000),
    },
    {
      name: 'sluice.evaluator.action.runs',
      description: 'Runs of actions, whatever came of them',
      unit: '{run}',
      kind: 'counter',
      series: one(({ wasm }) => wasm.executions),
    },
    {
      name: 'sluice.evaluator.action.duration',
      description: 'Time for which evaluators have waited for actions',
      unit: 's',
      kind: 'counter',
      series: one(({ wasm }) => wasm.duration.total_ms / 1000),
    },
  ];
}

function healthOf({ name, serviceType, serviceSubType, languageName, health }: RegisteredService): Series<number>[] {
  if (health === 'pending') return [];
  const attributes = {
    'sluice.service': name,
    'sluice.service.type': serviceType,
    ...(serviceSubType !== undefined && { 'sluice.service.engine': serviceSubType }),
    ...(languageName !== undefined && { 'sluice.service.language': languageName }),
  };
  return [{ attributes, value: health === 'healthy' ? 1 : 0 }];
}

function level(name: string, unit: string, description: string, value: number): NumberMetric {
  return { name, description, unit, kind: 'level', series: [{ attributes: {}, value }] };
}
