// Original file: proto/codeexecution.proto

import type { OutputType as _codeexecution_OutputType, OutputType__Output as _codeexecution_OutputType__Output } from '../codeexecution/OutputType.ts';
import type { ExecutionStatus as _codeexecution_ExecutionStatus, ExecutionStatus__Output as _codeexecution_ExecutionStatus__Output } from '../codeexecution/ExecutionStatus.ts';
import type { Long } from '@grpc/proto-loader';

export interface CodeExecutionReply {
  'isError'?: (boolean);
  'content'?: (string)[];
  'outputType'?: (_codeexecution_OutputType);
  'status'?: (_codeexecution_ExecutionStatus);
  'exitCode'?: (number);
  /**
   * Milliseconds since the Unix epoch.
   */
  'timestamp'?: (number | string | Long);
}

export interface CodeExecutionReply__Output {
  'isError': (boolean);
  'content': (string)[];
  'outputType': (_codeexecution_OutputType__Output);
  'status': (_codeexecution_ExecutionStatus__Output);
  'exitCode': (number);
  /**
   * Milliseconds since the Unix epoch.
   */
  'timestamp': (number);
}
