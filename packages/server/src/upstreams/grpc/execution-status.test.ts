import { describe, expect, test } from 'vitest';
import { type ExecutionState, expandTransition, INITIAL_STATE, isFailureStatus } from './code-execution.ts';

const STATES: readonly ExecutionState[] = ['PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT'];
const ENDS: readonly ExecutionState[] = ['COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT'];

test('an execution starts as PENDING', () => {
  expect(INITIAL_STATE).toBe('PENDING');
});

describe('the state transitions of executions', () => {
  test.each(STATES)('%s repeated is not a transition', (state) => {
    expect(expandTransition(state, state)).toEqual([]);
  });

  test.each(['RUNNING', 'FAILED', 'CANCELLED', 'TIMEOUT'] as const)('PENDING becomes %s', (status) => {
    expect(expandTransition('PENDING', status)).toEqual([status]);
  });

  test('COMPLETED straight after PENDING counts as RUNNING, then COMPLETED', () => {
    expect(expandTransition('PENDING', 'COMPLETED')).toEqual(['RUNNING', 'COMPLETED']);
  });

  test.each(ENDS)('RUNNING becomes %s', (status) => {
    expect(expandTransition('RUNNING', status)).toEqual([status]);
  });

  test('RUNNING does not revert to PENDING', () => {
    expect(expandTransition('RUNNING', 'PENDING')).toBeUndefined();
  });

  test.each(ENDS)('%s is final', (state) => {
    for (const status of STATES) if (status !== state) expect(expandTransition(state, status), status).toBeUndefined();
  });
});

test('all final states but COMPLETED are failures', () => {
  expect(STATES.filter(isFailureStatus)).toEqual(['FAILED', 'CANCELLED', 'TIMEOUT']);
});
