// Original file: proto/resource.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { ResourceReply as _resource_ResourceReply, ResourceReply__Output as _resource_ResourceReply__Output } from '../resource/ResourceReply.ts';
import type { ResourceRequest as _resource_ResourceRequest, ResourceRequest__Output as _resource_ResourceRequest__Output } from '../resource/ResourceRequest.ts';

export interface ResourceAcquirerClient extends grpc.Client {
  ResourceAcquire(argument: _resource_ResourceRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_resource_ResourceReply__Output>): grpc.ClientUnaryCall;
  ResourceAcquire(argument: _resource_ResourceRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_resource_ResourceReply__Output>): grpc.ClientUnaryCall;
  ResourceAcquire(argument: _resource_ResourceRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_resource_ResourceReply__Output>): grpc.ClientUnaryCall;
  ResourceAcquire(argument: _resource_ResourceRequest, callback: grpc.requestCallback<_resource_ResourceReply__Output>): grpc.ClientUnaryCall;
  resourceAcquire(argument: _resource_ResourceRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_resource_ResourceReply__Output>): grpc.ClientUnaryCall;
  resourceAcquire(argument: _resource_ResourceRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_resource_ResourceReply__Output>): grpc.ClientUnaryCall;
  resourceAcquire(argument: _resource_ResourceRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_resource_ResourceReply__Output>): grpc.ClientUnaryCall;
  resourceAcquire(argument: _resource_ResourceRequest, callback: grpc.requestCallback<_resource_ResourceReply__Output>): grpc.ClientUnaryCall;
  
}

export interface ResourceAcquirerHandlers extends grpc.UntypedServiceImplementation {
  ResourceAcquire: grpc.handleUnaryCall<_resource_ResourceRequest__Output, _resource_ResourceReply>;
  
}

export interface ResourceAcquirerDefinition extends grpc.ServiceDefinition {
  ResourceAcquire: MethodDefinition<_resource_ResourceRequest, _resource_ResourceReply, _resource_ResourceRequest__Output, _resource_ResourceReply__Output>
}
