import { ExecutionStatus, type ExecutionStatus__Output } from './generated/codeexecution/ExecutionStatus.ts';

/** How far an execution is (specification, "Enumerations"; decisions 3). */
export type ExecutionState = ExecutionStatus__Output;

/** What each state may become. The last four are ends. */
const MAY_BECOME: Readonly<Record<ExecutionState, readonly ExecutionState[]>> = {
  PENDING: ['RUNNING', 'FAILED', 'CANCELLED', 'TIMEOUT'],
  RUNNING: ['COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT'],
  COMPLETED: [],
  FAILED: [],
  CANCELLED: [],
  TIMEOUT: [],
};

/** Every execution begins here. */
export const INITIAL_STATE: ExecutionState = ExecutionStatus.PENDING;

/**
 * The states that an execution goes through when its service names this status: none when that is the state it is in
 * already, and undefined when it cannot become that, so that the status does not count (decisions 3).
 */
export function statesTowards(state: ExecutionState, status: ExecutionState): readonly ExecutionState[] | undefined {
  if (status === state) return [];
  if (MAY_BECOME[state].includes(status)) return [status];
  // Quick ones are over before their service says that they run.
  if (state === 'PENDING' && status === 'COMPLETED') return ['RUNNING', 'COMPLETED'];
  return undefined;
}

/** True for the ends that make the call's result an error (decisions 4.10, "Code result"). */
export function isBadEnd(state: ExecutionState): boolean {
  return state === 'FAILED' || state === 'CANCELLED' || state === 'TIMEOUT';
}
