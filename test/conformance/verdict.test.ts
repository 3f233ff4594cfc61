import { describe, expect, it } from 'vitest';
import type { CheckStatus } from './check.ts';
import type { Exception } from './exceptions.ts';
import type { Scenario } from './scenario.ts';
import { crossedFaults } from './verdict.ts';

const scenario = (name: string, ...ends: CheckStatus[]): Scenario => ({
  name,
  unscored: undefined,
  checks: ends.map((status) => ({ id: 'c', name: 'C', status, message: 'no' })),
});

/** What is wrong when these scenarios ran and these exceptions are listed. */
function faults(scenarios: readonly Scenario[], exceptions: readonly Exception[], scored = scenarios.length) {
  const suite = { name: 'one', package: 'p', args: [], scored, upstream: 'legacy' as const, exceptions };
  return crossedFaults({ suite, scenarios, passing: 0 });
}

const fails: Exception = { scenario: 'a', end: 'fails', complaint: 'no', reason: 'because' };
const warns: Exception = { scenario: 'a', end: 'warns', complaint: 'no', reason: 'because' };

describe('a suite across the eras', () => {
  it('is as it should be when all pass but the exceptions', () => {
    expect(faults([scenario('a', 'SUCCESS', 'FAILURE'), scenario('b', 'SUCCESS', 'INFO')], [fails])).toEqual([]);
    expect(faults([scenario('a', 'SUCCESS', 'WARNING')], [warns])).toEqual([]);
  });

  it('does not bear a scenario that fails or warns without being listed', () => {
    expect(faults([scenario('a', 'FAILURE')], [])).toEqual(['a: c (C): FAILURE, no']);
    expect(faults([scenario('a', 'WARNING')], [])).toEqual(['a: c (C): WARNING, no']);
  });

  it('does not bear an exception that ends otherwise than listed', () => {
    expect(faults([scenario('a', 'SUCCESS')], [fails])).toEqual([
      'a: passes, so it is to be taken out of the exceptions',
    ]);
    expect(faults([scenario('a', 'FAILURE')], [warns])).toEqual(['a: c (C): FAILURE, no']);
    expect(faults([scenario('a', 'WARNING')], [fails])).toEqual(['a: c (C): WARNING, no']);
  });

  it('does not bear an exception that fails because of something else', () => {
    const other: Exception = { ...fails, complaint: 'yes' };
    expect(faults([scenario('a', 'FAILURE')], [other])).toEqual(['a: c (C): FAILURE, no']);
  });

  it('does not bear a scenario that did not run, or an exception of no scenario', () => {
    expect(faults([scenario('b', 'SUCCESS')], [fails], 2)).toEqual([
      '1 scored scenarios ran, not 2',
      'a: an exception, but no scenario of the suite',
    ]);
  });
});
