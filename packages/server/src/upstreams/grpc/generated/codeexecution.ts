import type * as grpc from '@grpc/grpc-js';
import type { EnumTypeDefinition, MessageTypeDefinition } from '@grpc/proto-loader';

import type { CodeExecutionReply as _codeexecution_CodeExecutionReply, CodeExecutionReply__Output as _codeexecution_CodeExecutionReply__Output } from './codeexecution/CodeExecutionReply.ts';
import type { CodeExecutionRequest as _codeexecution_CodeExecutionRequest, CodeExecutionRequest__Output as _codeexecution_CodeExecutionRequest__Output } from './codeexecution/CodeExecutionRequest.ts';
import type { CodeExecutorClient as _codeexecution_CodeExecutorClient, CodeExecutorDefinition as _codeexecution_CodeExecutorDefinition } from './codeexecution/CodeExecutor.ts';

type SubtypeConstructor<Constructor extends new (...args: any) => any, Subtype> = {
  new(...args: ConstructorParameters<Constructor>): Subtype;
};

export interface ProtoGrpcType {
  codeexecution: {
    CodeExecutionReply: MessageTypeDefinition<_codeexecution_CodeExecutionReply, _codeexecution_CodeExecutionReply__Output>
    CodeExecutionRequest: MessageTypeDefinition<_codeexecution_CodeExecutionRequest, _codeexecution_CodeExecutionRequest__Output>
    CodeExecutor: SubtypeConstructor<typeof grpc.Client, _codeexecution_CodeExecutorClient> & { service: _codeexecution_CodeExecutorDefinition }
    ExecutionStatus: EnumTypeDefinition
    OutputType: EnumTypeDefinition
  }
}

