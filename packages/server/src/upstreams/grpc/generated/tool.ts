import type * as grpc from '@grpc/grpc-js';
import type { MessageTypeDefinition } from '@grpc/proto-loader';

import type { ToolInvokeReply as _tool_ToolInvokeReply, ToolInvokeReply__Output as _tool_ToolInvokeReply__Output } from './tool/ToolInvokeReply.ts';
import type { ToolInvokeRequest as _tool_ToolInvokeRequest, ToolInvokeRequest__Output as _tool_ToolInvokeRequest__Output } from './tool/ToolInvokeRequest.ts';
import type { ToolInvokerClient as _tool_ToolInvokerClient, ToolInvokerDefinition as _tool_ToolInvokerDefinition } from './tool/ToolInvoker.ts';

type SubtypeConstructor<Constructor extends new (...args: any) => any, Subtype> = {
  new(...args: ConstructorParameters<Constructor>): Subtype;
};

export interface ProtoGrpcType {
  tool: {
    ToolInvokeReply: MessageTypeDefinition<_tool_ToolInvokeReply, _tool_ToolInvokeReply__Output>
    ToolInvokeRequest: MessageTypeDefinition<_tool_ToolInvokeRequest, _tool_ToolInvokeRequest__Output>
    ToolInvoker: SubtypeConstructor<typeof grpc.Client, _tool_ToolInvokerClient> & { service: _tool_ToolInvokerDefinition }
  }
}

