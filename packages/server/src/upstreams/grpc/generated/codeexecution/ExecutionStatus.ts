// Original file: proto/codeexecution.proto

export const ExecutionStatus = {
  PENDING: 'PENDING',
  RUNNING: 'RUNNING',
  COMPLETED: 'COMPLETED',
  FAILED: 'FAILED',
  CANCELLED: 'CANCELLED',
  TIMEOUT: 'TIMEOUT',
} as const;

export type ExecutionStatus =
  | 'PENDING'
  | 0
  | 'RUNNING'
  | 1
  | 'COMPLETED'
  | 2
  | 'FAILED'
  | 3
  | 'CANCELLED'
  | 4
  | 'TIMEOUT'
  | 5

export type ExecutionStatus__Output = typeof ExecutionStatus[keyof typeof ExecutionStatus]
