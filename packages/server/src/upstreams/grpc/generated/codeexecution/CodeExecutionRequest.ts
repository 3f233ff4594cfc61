// Original file: proto/codeexecution.proto

import type { Long } from '@grpc/proto-loader';

export interface CodeExecutionRequest {
  /**
   * code-execution-engine://{engine}/{language}
   */
  'uri'?: (string);
  'body'?: (string);
  'code'?: (string);
  /**
   * A list of arguments comes as arg0, arg1 and so on.
   */
  'arguments'?: ({[key: string]: string});
  'configurationURI'?: (string);
  'secretsURI'?: (string);
  /**
   * Milliseconds: 1 to 300000, 30000 where the caller named none.
   */
  'timeout'?: (number | string | Long);
  'environment'?: ({[key: string]: string});
}

export interface CodeExecutionRequest__Output {
  /**
   * code-execution-engine://{engine}/{language}
   */
  'uri': (string);
  'body': (string);
  'code': (string);
  /**
   * A list of arguments comes as arg0, arg1 and so on.
   */
  'arguments': ({[key: string]: string});
  'configurationURI': (string);
  'secretsURI': (string);
  /**
   * Milliseconds: 1 to 300000, 30000 where the caller named none.
   */
  'timeout': (number);
  'environment': ({[key: string]: string});
}
