// Original file: proto/codeexecution.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { CodeExecutionReply as _codeexecution_CodeExecutionReply, CodeExecutionReply__Output as _codeexecution_CodeExecutionReply__Output } from '../codeexecution/CodeExecutionReply.ts';
import type { CodeExecutionRequest as _codeexecution_CodeExecutionRequest, CodeExecutionRequest__Output as _codeexecution_CodeExecutionRequest__Output } from '../codeexecution/CodeExecutionRequest.ts';

export interface CodeExecutorClient extends grpc.Client {
  ExecuteCode(argument: _codeexecution_CodeExecutionRequest, metadata: grpc.Metadata, options?: grpc.CallOptions): grpc.ClientReadableStream<_codeexecution_CodeExecutionReply__Output>;
  ExecuteCode(argument: _codeexecution_CodeExecutionRequest, options?: grpc.CallOptions): grpc.ClientReadableStream<_codeexecution_CodeExecutionReply__Output>;
  executeCode(argument: _codeexecution_CodeExecutionRequest, metadata: grpc.Metadata, options?: grpc.CallOptions): grpc.ClientReadableStream<_codeexecution_CodeExecutionReply__Output>;
  executeCode(argument: _codeexecution_CodeExecutionRequest, options?: grpc.CallOptions): grpc.ClientReadableStream<_codeexecution_CodeExecutionReply__Output>;
  
}

export interface CodeExecutorHandlers extends grpc.UntypedServiceImplementation {
  ExecuteCode: grpc.handleServerStreamingCall<_codeexecution_CodeExecutionRequest__Output, _codeexecution_CodeExecutionReply>;
  
}

export interface CodeExecutorDefinition extends grpc.ServiceDefinition {
  ExecuteCode: MethodDefinition<_codeexecution_CodeExecutionRequest, _codeexecution_CodeExecutionReply, _codeexecution_CodeExecutionRequest__Output, _codeexecution_CodeExecutionReply__Output>
}
