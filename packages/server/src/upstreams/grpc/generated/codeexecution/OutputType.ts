// Original file: proto/codeexecution.proto

export const OutputType = {
  STDOUT: 'STDOUT',
  STDERR: 'STDERR',
  STATUS: 'STATUS',
  COMPLETION: 'COMPLETION',
} as const;

export type OutputType =
  | 'STDOUT'
  | 0
  | 'STDERR'
  | 1
  | 'STATUS'
  | 2
  | 'COMPLETION'
  | 3

export type OutputType__Output = typeof OutputType[keyof typeof OutputType]
