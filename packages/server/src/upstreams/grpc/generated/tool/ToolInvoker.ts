// Original file: proto/tool.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { ToolInvokeReply as _tool_ToolInvokeReply, ToolInvokeReply__Output as _tool_ToolInvokeReply__Output } from '../tool/ToolInvokeReply.ts';
import type { ToolInvokeRequest as _tool_ToolInvokeRequest, ToolInvokeRequest__Output as _tool_ToolInvokeRequest__Output } from '../tool/ToolInvokeRequest.ts';

export interface ToolInvokerClient extends grpc.Client {
  InvokeTool(argument: _tool_ToolInvokeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_tool_ToolInvokeReply__Output>): grpc.ClientUnaryCall;
  InvokeTool(argument: _tool_ToolInvokeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_tool_ToolInvokeReply__Output>): grpc.ClientUnaryCall;
  InvokeTool(argument: _tool_ToolInvokeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_tool_ToolInvokeReply__Output>): grpc.ClientUnaryCall;
  InvokeTool(argument: _tool_ToolInvokeRequest, callback: grpc.requestCallback<_tool_ToolInvokeReply__Output>): grpc.ClientUnaryCall;
  invokeTool(argument: _tool_ToolInvokeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_tool_ToolInvokeReply__Output>): grpc.ClientUnaryCall;
  invokeTool(argument: _tool_ToolInvokeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_tool_ToolInvokeReply__Output>): grpc.ClientUnaryCall;
  invokeTool(argument: _tool_ToolInvokeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_tool_ToolInvokeReply__Output>): grpc.ClientUnaryCall;
  invokeTool(argument: _tool_ToolInvokeRequest, callback: grpc.requestCallback<_tool_ToolInvokeReply__Output>): grpc.ClientUnaryCall;
  
}

export interface ToolInvokerHandlers extends grpc.UntypedServiceImplementation {
  InvokeTool: grpc.handleUnaryCall<_tool_ToolInvokeRequest__Output, _tool_ToolInvokeReply>;
  
}

export interface ToolInvokerDefinition extends grpc.ServiceDefinition {
  InvokeTool: MethodDefinition<_tool_ToolInvokeRequest, _tool_ToolInvokeReply, _tool_ToolInvokeRequest__Output, _tool_ToolInvokeReply__Output>
}
