import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import { getHeapSpaceStatistics } from 'node:v8';
import type { EvaluatorMetrics, FilterMetrics, Metrics, ServiceHealth } from '@sluice/contract';
import type { ToolCallCount } from '../tool-calls/events.ts';
import { Durations, type Metric, type NumberMetric, type Series } from './instruments.ts';
import type { RequestMetrics } from './request-metrics.ts';

/** What an evaluator can decide. */
export type EvaluatorDecision = keyof EvaluatorMetrics['decisions'];

/** Why an evaluator can come to no decision. */
export type EvaluatorFailure = 'llm_failure' | 'action_failure';

/** Counters of one evaluator (decisions 4.4, "Metrics"). Durations are in milliseconds. */
export class EvaluatorCounters {
  readonly #decisions = { pass: 0, block: 0, reject_malformed: 0, warn: 0, filter_tools: 0, set_metadata: 0 };
  readonly #failures: Record<EvaluatorFailure, number> = { llm_failure: 0, action_failure: 0 };
  readonly #llm = { calls_success: 0, calls_failure: 0, empty_results: 0 };
  readonly #llmDuration = new Durations();
  readonly #schema = { validations_pass: 0, validations_fail: 0, retries_success: 0, retries_failure: 0 };
  readonly #wasm = { executions: 0, not_found: 0 };
  readonly #wasmDuration = new Durations();
  readonly #duration = new Durations();

  decided(decision: EvaluatorDecision): void {
    this.#decisions[decision]++;
  }

  /** A run came to none. */
  failed(failure: EvaluatorFailure): void {
    this.#failures[failure]++;
  }

  /** A call to the LLM came to an end. */
  called(success: boolean, ms: number): void {
    this.#llm[success ? 'calls_success' : 'calls_failure']++;
    this.#llmDuration.add(ms);
  }

  /** It answered with nothing, which is valid. */
  emptyResult(): void {
    this.#llm.empty_results++;
  }

  /** An answer was compared with the result schema. */
  validated(pass: boolean): void {
    this.#schema[pass ? 'validations_pass' : 'validations_fail']++;
  }

  /** The correction round brought an answer that fits, or none. */
  retried(success: boolean): void {
    this.#schema[success ? 'retries_success' : 'retries_failure']++;
  }

  /** Its action was run, whatever came of it. */
  executed(ms: number): void {
    this.#wasm.executions++;
    this.#wasmDuration.add(ms);
  }

  /** A whole run is over. */
  ran(ms: number): void {
    this.#duration.add(ms);
  }

  /** Runs without a decision. */
  get failures(): Readonly<Record<EvaluatorFailure, number>> {
    return { ...this.#failures };
  }

  /** The counts so far. An evaluator without its action is never loaded, so that `not_found` stays 0. */
  snapshot(): EvaluatorMetrics {
    return {
      decisions: { ...this.#decisions },
      llm: { ...this.#llm, duration: this.#llmDuration.snapshot() },
      schema: { ...this.#schema },
      wasm: { ...this.#wasm, duration: this.#wasmDuration.snapshot() },
      pipeline_duration: this.#duration.snapshot(),
    };
  }
}

/**
 * Counters of one filter (decisions 4.4, "Metrics"). A request that reaches the filter is counted once, when the filter is
 * done with it, by one of these methods; each takes how long the filter had it, in milliseconds. Part of the hot path:
 * counting makes no objects.
 */
export class FilterCounters {
  #continued = 0;
  #rejected = 0;
  #other = 0;
  #errors = 0;
  readonly #duration = new Durations();

  /** It passed the request on. */
  passed(ms: number): void {
    this.#continued++;
    this.#duration.add(ms);
  }

  /** It answered with an error. */
  rejected(ms: number): void {
    this.#rejected++;
    this.#duration.add(ms);
  }

  /** It answered otherwise. */
  answered(ms: number): void {
    this.#other++;
    this.#duration.add(ms);
  }

  /** It threw. */
  broke(ms: number): void {
    this.#errors++;
    this.#duration.add(ms);
  }

  /** The counts so far. */
  snapshot(): FilterMetrics {
    return {
      requests_continue: this.#continued,
      requests_reject: this.#rejected,
      requests_other: this.#other,
      errors: this.#errors,
      duration: this.#duration.snapshot(),
    };
  }
}

/** What is loaded at the moment. */
export type LoadedGauges = Metrics['gauges'];

/** How requests met the triggers of evaluators. */
export type TriggerCounts = Metrics['pipeline'];

const NOTHING_LOADED: LoadedGauges = { evaluators_loaded: 0, wasm_compiled: 0, namespace_bindings: 0 };

/** Names that are counted under: evaluators can be replaced by others without end. */
const MAX_EVALUATORS = 2_000;

/** What the service counts from its start on, in memory alone (decisions 4.4, "Metrics"). */
export class ServiceMetrics {
  readonly #filters = new Map<string, FilterCounters>();
  readonly #evaluators = new Map<string, EvaluatorCounters>();
  /**
   * Each is counted where it happens: a trigger per evaluator, the rest per request. Every action that a run needs has the
   * registry and the interactions, so that no run is left out for want of them.
   */
  readonly triggers: TriggerCounts = {
    trigger_matches: 0,
    trigger_misses: 0,
    skipped_no_method: 0,
    skipped_no_state: 0,
    skipped_no_match: 0,
    skipped_no_registry: 0,
    skipped_no_interactions: 0,
  };
  /** Asked whenever metrics are. */
  loaded: () => LoadedGauges = () => NOTHING_LOADED;

  /** The counters of the filter of this name, shared by all places where it stands. For making a chain, not for requests. */
  filter(name: string): FilterCounters {
    const known = this.#filters.get(name);
    if (known) return known;
    const counters = new FilterCounters();
    this.#filters.set(name, counters);
    return counters;
  }

  /** The counters of the evaluator of this name, whoever had it before. */
  evaluator(name: string): EvaluatorCounters {
    const known = this.#evaluators.get(name);
    if (known) return known;
    const [oldest] = this.#evaluators.keys();
    if (this.#evaluators.size >= MAX_EVALUATORS && oldest !== undefined) this.#evaluators.delete(oldest);
    const counters = new EvaluatorCounters();
    this.#evaluators.set(name, counters);
    return counters;
  }

  /** Evaluators by name, with their counters, in the order in which they became known. */
  get evaluators(): ReadonlyMap<string, EvaluatorCounters> {
    return this.#evaluators;
  }

  /** All counts so far; filters in the order in which they were made known, those that nothing has reached too. */
  snapshot(): Metrics {
    const filters = Array.from(this.#filters, ([name, counters]) => [name, counters.snapshot()] as const);
    const evaluators = Array.from(this.#evaluators, ([name, counters]) => [name, counters.snapshot()] as const);
    return {
      filters: Object.fromEntries(filters),
      evaluators: Object.fromEntries(evaluators),
      pipeline: { ...this.triggers },
      gauges: this.loaded(),
    };
  }
}

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

/**
 * How this process is doing, asked when somebody wants to know: nothing of it is watched all the time, as the delay of the
 * event loop would have to be.
 */
export class ProcessMetrics {
  #before: EventLoopUtilization = performance.eventLoopUtilization();

  /** As it is now; the utilization of the event loop is that since the last time. */
  metrics(): Metric[] {
    const { user, system } = process.cpuUsage();
    const loop = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(loop, this.#before);
    this.#before = loop;
    return [
      {
        name: 'process.cpu.time',
        description: 'Processor time that the process has used',
        unit: 's',
        kind: 'counter',
        series: [
          { attributes: { 'cpu.mode': 'user' }, value: user / 1e6 },
          { attributes: { 'cpu.mode': 'system' }, value: system / 1e6 },
        ],
      },
      {
        name: 'process.memory.usage',
        description: 'Physical memory that the process has',
        unit: 'By',
        kind: 'level',
        series: [{ attributes: {}, value: process.memoryUsage.rss() }],
      },
      {
        name: 'process.uptime',
        description: 'Time since the process began',
        unit: 's',
        kind: 'gauge',
        series: [{ attributes: {}, value: process.uptime() }],
      },
      {
        name: 'v8js.memory.heap.used',
        description: 'Memory in use, by space of the heap',
        unit: 'By',
        kind: 'level',
        series: getHeapSpaceStatistics().map(({ space_name, space_used_size }) => ({
          attributes: { 'v8js.heap.space.name': space_name },
          value: space_used_size,
        })),
      },
      {
        name: 'nodejs.eventloop.time',
        description: 'Time that the event loop has spent, by what it was doing',
        unit: 's',
        kind: 'counter',
        series: [
          { attributes: { 'nodejs.eventloop.state': 'active' }, value: loop.active / 1e3 },
          { attributes: { 'nodejs.eventloop.state': 'idle' }, value: loop.idle / 1e3 },
        ],
      },
      {
        name: 'nodejs.eventloop.utilization',
        description: 'Share of the time in which the event loop was at work, since this was last asked',
        unit: '1',
        kind: 'gauge',
        series: [{ attributes: {}, value: utilization }],
      },
    ];
  }
}

/** What {@link MetricSource} asks. */
export interface MetricSourceOptions {
  readonly requests: Pick<RequestMetrics, 'metrics'>;
  readonly state: ServiceState;
}

/** See {@link MetricSource.reader}. */
export interface MetricReading {
  /** When counting began, in milliseconds since the Unix epoch. */
  readonly startedAt: number;
  /** The metrics as they are at this moment; those that have no series yet are left out. */
  read(): Metric[];
}

/** All metrics, for whoever asks: Prometheus, or an exporter. Knows nothing of either. */
export class MetricSource {
  readonly #requests: Pick<RequestMetrics, 'metrics'>;
  readonly #state: ServiceState;
  readonly #startedAt: number = Date.now();

  constructor({ requests, state }: MetricSourceOptions) {
    this.#requests = requests;
    this.#state = state;
  }

  /** A view for one that asks again and again: what it sees of the event loop is what there was since it last asked. */
  reader(): MetricReading {
    const process = new ProcessMetrics();
    return {
      startedAt: this.#startedAt,
      read: () => {
        const all = [...this.#requests.metrics(), ...stateMetrics(this.#state), ...process.metrics()];
        return all.filter(({ series }) => series.length > 0);
      },
    };
  }
}
