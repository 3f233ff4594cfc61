import { fileURLToPath } from 'node:url';
import { type GrpcObject, loadPackageDefinition } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import type { CodeExecutorDefinition } from './generated/codeexecution/CodeExecutor.ts';
import type { ProtoGrpcType as CodeExecution } from './generated/codeexecution.ts';
import type { HealthProbeDefinition } from './generated/health/HealthProbe.ts';
import type { ProtoGrpcType as Health } from './generated/health.ts';
import type { ProtoGrpcType as Provision } from './generated/provision.ts';
import type { ResourceAcquirerDefinition } from './generated/resource/ResourceAcquirer.ts';
import type { ProtoGrpcType as Resource } from './generated/resource.ts';
import type { ProvisionerDefinition } from './generated/tool/Provisioner.ts';
import type { ToolInvokerDefinition } from './generated/tool/ToolInvoker.ts';
import type { ProtoGrpcType as Tool } from './generated/tool.ts';

/** The folder of the five `.proto` files (decisions 2.12). Capability services are made from the same ones. */
export const PROTO_FOLDER = fileURLToPath(new URL('../../proto', import.meta.url));

/** The files in it. */
export const PROTO_FILES: readonly string[] = [
  'tool.proto',
  'provision.proto',
  'resource.proto',
  'codeexecution.proto',
  'health.proto',
];

/** The five protocols that capability services speak (specification, "Capability-service protocols"). */
export interface Protocols {
  readonly toolInvoker: ToolInvokerDefinition;
  readonly provisioner: ProvisionerDefinition;
  readonly resourceAcquirer: ResourceAcquirerDefinition;
  readonly codeExecutor: CodeExecutorDefinition;
  readonly healthProbe: HealthProbeDefinition;
}

/** Reads the `.proto` files. Field names stay as they are written there; members that were not sent have defaults. */
export function loadProtocols(): Protocols {
  const definition = loadSync([...PROTO_FILES], {
    includeDirs: [PROTO_FOLDER],
    keepCase: true,
    longs: Number,
    enums: String,
    defaults: true,
  });
  // What is generated of the same files says what is in them (`npm run generate`).
  const loaded: GrpcObject = loadPackageDefinition(definition);
  const { tool, resource, codeexecution, health } = loaded as unknown as Tool &
    Provision &
    Resource &
    CodeExecution &
    Health;
  return {
    toolInvoker: tool.ToolInvoker.service,
    provisioner: tool.Provisioner.service,
    resourceAcquirer: resource.ResourceAcquirer.service,
    codeExecutor: codeexecution.CodeExecutor.service,
    healthProbe: health.HealthProbe.service,
  };
}
