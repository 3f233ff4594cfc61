import { describe, expect, it } from 'vitest';
import type { CheckStatus } from './check.ts';
import type { Exception } from './exceptions.ts';
import type { Scenario } from './scenario.ts';
import { translationFaults } from './verdict.ts';

const scenario = (name: string, ...statuses: CheckStatus[]): Scenario => ({
  name,
  unscored: undefined,
  checks: statuses.map((status) => ({ id: 'c', name: 'C', status, message: 'no' })),
});

/** Faults of these scenarios with these exceptions. */
function faults(scenarios: readonly Scenario[], exceptions: readonly Exception[], scored = scenarios.length) {
  const suite = { name: 'one', package: 'p', args: [], scored, upstream: 'legacy' as const, exceptions };
  return translationFaults({ suite, scenarios, passing: 0 });
}

const fails: Exception = { scenario: 'a', result: 'fails', message: 'no', reason: 'because' };
const warns: Exception = { scenario: 'a', result: 'warns', message: 'no', reason: 'because' };

describe('an era translation suite', () => {
  it('has no faults if all scenarios but the exceptions pass', () => {
    expect(faults([scenario('a', 'SUCCESS', 'FAILURE'), scenario('b', 'SUCCESS', 'INFO')], [fails])).toEqual([]);
    expect(faults([scenario('a', 'SUCCESS', 'WARNING')], [warns])).toEqual([]);
  });

  it('reports a scenario that fails or warns without being listed', () => {
    expect(faults([scenario('a', 'FAILURE')], [])).toEqual(['a: c (C): FAILURE, no']);
    expect(faults([scenario('a', 'WARNING')], [])).toEqual(['a: c (C): WARNING, no']);
  });

  it('reports an exception with another result than listed', () => {
    expect(faults([scenario('a', 'SUCCESS')], [fails])).toEqual(['a: passes; remove it from the exceptions']);
    expect(faults([scenario('a', 'FAILURE')], [warns])).toEqual(['a: c (C): FAILURE, no']);
    expect(faults([scenario('a', 'WARNING')], [fails])).toEqual(['a: c (C): WARNING, no']);
  });

  it('reports an exception that fails for another reason', () => {
    const other: Exception = { ...fails, message: 'yes' };
    expect(faults([scenario('a', 'FAILURE')], [other])).toEqual(['a: c (C): FAILURE, no']);
  });

  it('reports a scenario that did not run, and an exception without a scenario', () => {
    expect(faults([scenario('b', 'SUCCESS')], [fails], 2)).toEqual([
      '1 scored scenarios ran, not 2',
      'a: listed as an exception, but not a scenario of the suite',
    ]);
  });
});
