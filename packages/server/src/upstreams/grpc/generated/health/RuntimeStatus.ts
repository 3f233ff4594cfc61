// Original file: proto/health.proto

export const RuntimeStatus = {
  STOPPED: 'STOPPED',
  STOPPING: 'STOPPING',
  STARTING: 'STARTING',
  STARTED: 'STARTED',
} as const;

export type RuntimeStatus =
  | 'STOPPED'
  | 0
  | 'STOPPING'
  | 1
  | 'STARTING'
  | 2
  | 'STARTED'
  | 3

export type RuntimeStatus__Output = typeof RuntimeStatus[keyof typeof RuntimeStatus]
