// Original file: proto/health.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { HealthProbeReply as _health_HealthProbeReply, HealthProbeReply__Output as _health_HealthProbeReply__Output } from '../health/HealthProbeReply.ts';
import type { HealthProbeRequest as _health_HealthProbeRequest, HealthProbeRequest__Output as _health_HealthProbeRequest__Output } from '../health/HealthProbeRequest.ts';

export interface HealthProbeClient extends grpc.Client {
  GetStatus(argument: _health_HealthProbeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  GetStatus(argument: _health_HealthProbeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  GetStatus(argument: _health_HealthProbeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  GetStatus(argument: _health_HealthProbeRequest, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  getStatus(argument: _health_HealthProbeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  getStatus(argument: _health_HealthProbeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  getStatus(argument: _health_HealthProbeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  getStatus(argument: _health_HealthProbeRequest, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  
  Probe(argument: _health_HealthProbeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  Probe(argument: _health_HealthProbeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  Probe(argument: _health_HealthProbeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  Probe(argument: _health_HealthProbeRequest, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  probe(argument: _health_HealthProbeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  probe(argument: _health_HealthProbeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  probe(argument: _health_HealthProbeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  probe(argument: _health_HealthProbeRequest, callback: grpc.requestCallback<_health_HealthProbeReply__Output>): grpc.ClientUnaryCall;
  
}

export interface HealthProbeHandlers extends grpc.UntypedServiceImplementation {
  GetStatus: grpc.handleUnaryCall<_health_HealthProbeRequest__Output, _health_HealthProbeReply>;
  
  Probe: grpc.handleUnaryCall<_health_HealthProbeRequest__Output, _health_HealthProbeReply>;
  
}

export interface HealthProbeDefinition extends grpc.ServiceDefinition {
  GetStatus: MethodDefinition<_health_HealthProbeRequest, _health_HealthProbeReply, _health_HealthProbeRequest__Output, _health_HealthProbeReply__Output>
  Probe: MethodDefinition<_health_HealthProbeRequest, _health_HealthProbeReply, _health_HealthProbeRequest__Output, _health_HealthProbeReply__Output>
}
