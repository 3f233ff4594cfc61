// Original file: proto/provision.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { ProvisionReply as _tool_ProvisionReply, ProvisionReply__Output as _tool_ProvisionReply__Output } from '../tool/ProvisionReply.ts';
import type { ProvisionRequest as _tool_ProvisionRequest, ProvisionRequest__Output as _tool_ProvisionRequest__Output } from '../tool/ProvisionRequest.ts';

export interface ProvisionerClient extends grpc.Client {
  Provision(argument: _tool_ProvisionRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_tool_ProvisionReply__Output>): grpc.ClientUnaryCall;
  Provision(argument: _tool_ProvisionRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_tool_ProvisionReply__Output>): grpc.ClientUnaryCall;
  Provision(argument: _tool_ProvisionRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_tool_ProvisionReply__Output>): grpc.ClientUnaryCall;
  Provision(argument: _tool_ProvisionRequest, callback: grpc.requestCallback<_tool_ProvisionReply__Output>): grpc.ClientUnaryCall;
  provision(argument: _tool_ProvisionRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_tool_ProvisionReply__Output>): grpc.ClientUnaryCall;
  provision(argument: _tool_ProvisionRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_tool_ProvisionReply__Output>): grpc.ClientUnaryCall;
  provision(argument: _tool_ProvisionRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_tool_ProvisionReply__Output>): grpc.ClientUnaryCall;
  provision(argument: _tool_ProvisionRequest, callback: grpc.requestCallback<_tool_ProvisionReply__Output>): grpc.ClientUnaryCall;
  
}

export interface ProvisionerHandlers extends grpc.UntypedServiceImplementation {
  Provision: grpc.handleUnaryCall<_tool_ProvisionRequest__Output, _tool_ProvisionReply>;
  
}

export interface ProvisionerDefinition extends grpc.ServiceDefinition {
  Provision: MethodDefinition<_tool_ProvisionRequest, _tool_ProvisionReply, _tool_ProvisionRequest__Output, _tool_ProvisionReply__Output>
}
