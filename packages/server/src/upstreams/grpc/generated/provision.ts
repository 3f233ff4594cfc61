import type * as grpc from '@grpc/grpc-js';
import type { EnumTypeDefinition, MessageTypeDefinition } from '@grpc/proto-loader';

import type { Configuration as _tool_Configuration, Configuration__Output as _tool_Configuration__Output } from './tool/Configuration.ts';
import type { PropertySchema as _tool_PropertySchema, PropertySchema__Output as _tool_PropertySchema__Output } from './tool/PropertySchema.ts';
import type { ProvisionReply as _tool_ProvisionReply, ProvisionReply__Output as _tool_ProvisionReply__Output } from './tool/ProvisionReply.ts';
import type { ProvisionRequest as _tool_ProvisionRequest, ProvisionRequest__Output as _tool_ProvisionRequest__Output } from './tool/ProvisionRequest.ts';
import type { ProvisionerClient as _tool_ProvisionerClient, ProvisionerDefinition as _tool_ProvisionerDefinition } from './tool/Provisioner.ts';
import type { Secret as _tool_Secret, Secret__Output as _tool_Secret__Output } from './tool/Secret.ts';

type SubtypeConstructor<Constructor extends new (...args: any) => any, Subtype> = {
  new(...args: ConstructorParameters<Constructor>): Subtype;
};

export interface ProtoGrpcType {
  tool: {
    Configuration: MessageTypeDefinition<_tool_Configuration, _tool_Configuration__Output>
    PayloadType: EnumTypeDefinition
    PropertySchema: MessageTypeDefinition<_tool_PropertySchema, _tool_PropertySchema__Output>
    ProvisionReply: MessageTypeDefinition<_tool_ProvisionReply, _tool_ProvisionReply__Output>
    ProvisionRequest: MessageTypeDefinition<_tool_ProvisionRequest, _tool_ProvisionRequest__Output>
    Provisioner: SubtypeConstructor<typeof grpc.Client, _tool_ProvisionerClient> & { service: _tool_ProvisionerDefinition }
    Secret: MessageTypeDefinition<_tool_Secret, _tool_Secret__Output>
  }
}

