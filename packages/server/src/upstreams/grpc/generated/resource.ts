import type * as grpc from '@grpc/grpc-js';
import type { MessageTypeDefinition } from '@grpc/proto-loader';

import type { ResourceAcquirerClient as _resource_ResourceAcquirerClient, ResourceAcquirerDefinition as _resource_ResourceAcquirerDefinition } from './resource/ResourceAcquirer.ts';
import type { ResourceReply as _resource_ResourceReply, ResourceReply__Output as _resource_ResourceReply__Output } from './resource/ResourceReply.ts';
import type { ResourceRequest as _resource_ResourceRequest, ResourceRequest__Output as _resource_ResourceRequest__Output } from './resource/ResourceRequest.ts';

type SubtypeConstructor<Constructor extends new (...args: any) => any, Subtype> = {
  new(...args: ConstructorParameters<Constructor>): Subtype;
};

export interface ProtoGrpcType {
  resource: {
    ResourceAcquirer: SubtypeConstructor<typeof grpc.Client, _resource_ResourceAcquirerClient> & { service: _resource_ResourceAcquirerDefinition }
    ResourceReply: MessageTypeDefinition<_resource_ResourceReply, _resource_ResourceReply__Output>
    ResourceRequest: MessageTypeDefinition<_resource_ResourceRequest, _resource_ResourceRequest__Output>
  }
}

