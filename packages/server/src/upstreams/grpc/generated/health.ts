import type * as grpc from '@grpc/grpc-js';
import type { EnumTypeDefinition, MessageTypeDefinition } from '@grpc/proto-loader';

import type { HealthProbeClient as _health_HealthProbeClient, HealthProbeDefinition as _health_HealthProbeDefinition } from './health/HealthProbe.ts';
import type { HealthProbeReply as _health_HealthProbeReply, HealthProbeReply__Output as _health_HealthProbeReply__Output } from './health/HealthProbeReply.ts';
import type { HealthProbeRequest as _health_HealthProbeRequest, HealthProbeRequest__Output as _health_HealthProbeRequest__Output } from './health/HealthProbeRequest.ts';

type SubtypeConstructor<Constructor extends new (...args: any) => any, Subtype> = {
  new(...args: ConstructorParameters<Constructor>): Subtype;
};

export interface ProtoGrpcType {
  health: {
    HealthProbe: SubtypeConstructor<typeof grpc.Client, _health_HealthProbeClient> & { service: _health_HealthProbeDefinition }
    HealthProbeReply: MessageTypeDefinition<_health_HealthProbeReply, _health_HealthProbeReply__Output>
    HealthProbeRequest: MessageTypeDefinition<_health_HealthProbeRequest, _health_HealthProbeRequest__Output>
    RuntimeStatus: EnumTypeDefinition
  }
}

