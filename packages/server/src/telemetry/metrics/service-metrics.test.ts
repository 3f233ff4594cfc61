import { metrics } from '@sluice/contract';
import { describe, expect, it } from 'vitest';
import { type FilterCounters, ServiceMetrics } from './service-metrics.ts';

/** Counts a request as a chain does. */
function count(counters: FilterCounters, result: 'continued' | 'rejected' | 'answered' | 'failed', ms: number): void {
  counters[result]++;
  counters.totalMs += ms;
}

describe('the metrics', () => {
  it('match the contract, also before anything was counted', () => {
    const service = new ServiceMetrics();
    service.filter('mcp');
    const snapshot = service.snapshot();
    expect(metrics.parse(snapshot)).toEqual(snapshot);
    expect(snapshot).toEqual({
      filters: {
        mcp: {
          requests_continue: 0,
          requests_reject: 0,
          requests_other: 0,
          errors: 0,
          duration: { count: 0, total_ms: 0, avg_ms: 0 },
        },
      },
      evaluators: {},
      pipeline: {
        trigger_matches: 0,
        trigger_misses: 0,
        skipped_no_method: 0,
        skipped_no_state: 0,
        skipped_no_match: 0,
        skipped_no_registry: 0,
        skipped_no_interactions: 0,
      },
      gauges: { evaluators_loaded: 0, evaluators_skipped: 0, wasm_compiled: 0, namespace_bindings: 0 },
      hosts: { running: 0, idle: 0, spare: 0, waiting: 0, started: 0, ended: 0 },
    });
  });

  it('count each outcome of a filter, and its duration in all cases', () => {
    const service = new ServiceMetrics();
    const counters = service.filter('mcp');
    count(counters, 'continued', 1);
    for (const ms of [2, 3]) count(counters, 'rejected', ms);
    for (const ms of [4, 5, 6]) count(counters, 'answered', ms);
    for (const ms of [7, 8, 9, 10]) count(counters, 'failed', ms);
    expect(service.snapshot().filters.mcp).toEqual({
      requests_continue: 1,
      requests_reject: 2,
      requests_other: 3,
      errors: 4,
      duration: { count: 10, total_ms: 55, avg_ms: 5.5 },
    });
  });

  it('sum exact durations and return three decimals', () => {
    const service = new ServiceMetrics();
    for (let time = 0; time < 3; time++) count(service.filter('mcp'), 'continued', 0.000_4);
    expect(service.snapshot().filters.mcp?.duration).toEqual({ count: 3, total_ms: 0.001, avg_ms: 0 });
    count(service.filter('mcp'), 'continued', 2);
    expect(service.snapshot().filters.mcp?.duration).toEqual({ count: 4, total_ms: 2.001, avg_ms: 0.5 });
  });

  it('return filters in the order of registration, unique by name', () => {
    const service = new ServiceMetrics();
    for (const name of ['mcp', 'cors', 'mcp']) count(service.filter(name), 'continued', 0);
    const { filters } = service.snapshot();
    expect(Object.keys(filters)).toEqual(['mcp', 'cors']);
    expect([filters.mcp?.requests_continue, filters.cors?.requests_continue]).toEqual([2, 1]);
  });

  it('are a snapshot', () => {
    const service = new ServiceMetrics();
    const before = service.snapshot();
    count(service.filter('mcp'), 'continued', 1);
    expect(before.filters).toEqual({});
  });
});
