import { serviceAddress } from '@sluice/contract';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { type Entry, FORWARD_TYPE, type ServiceEntry } from '../../registry/entries.ts';
import { contentOfTexts, type ToolTarget, toolSummary } from '../../telemetry/tool-calls/event.ts';
import type { UpstreamConnection } from '../connection.ts';
import { CallError, type RunningOperations } from '../operation.ts';
import { codeExecutor } from './code-execution.ts';
import { isCodeUri, parseCodeUri } from './code-request.ts';
import { contentOutcome, resourceResult, toolFailure, toolResult } from './content-result.ts';
import type { ResourceRequest } from './generated/resource/ResourceRequest.ts';
import { type GrpcParts, ServiceConnection, type ServiceExecutor } from './service-call.ts';
import { describeService, sendRequest } from './service-error.ts';
import { findResourceService, findToolService } from './services.ts';
import {
  BLOCK_BYTES,
  checkContentSize,
  describeUpstreamRequest,
  jsonBytes,
  parseArguments,
  stringMember,
  toolRequest,
} from './tool-operation.ts';

/** Error category of a read whose service returns an error. */
const RESOURCE_ERROR = 'resource_error';

/** What connections to capability services need. */
export interface GrpcBridgeOptions extends GrpcParts {
  readonly operations: Pick<RunningOperations, 'start'>;
}

/** Returns the connection that executes requests about an entry; undefined if no service does. */
export type FindServiceConnection = (entry: Entry) => UpstreamConnection | undefined;

/**
 * Bridge to capability services: invokes tools, acquires resources and executes code of entries whose type has a service.
 */
export function grpcBridge(parts: GrpcBridgeOptions): FindServiceConnection {
  return (entry) => {
    const executor = findExecutor(parts, entry);
    return executor && new ServiceConnection(executor, parts.operations);
  };
}

function findExecutor(parts: GrpcParts, entry: Entry): ServiceExecutor | undefined {
  const { services } = parts.registry.current;
  const { toolType, type } = entry.members;
  if (entry.kind === 'resource') {
    const service = type === FORWARD_TYPE ? undefined : findResourceService(services, String(type));
    return service && resourceAcquirer(parts, entry, service);
  }
  const uri = stringMember(entry.members, 'uri');
  // Whether or not there is a service for it.
  if (isCodeUri(uri)) return codeExecutor(parts, entry, parseCodeUri(uri));
  // The forward type takes precedence over a service of that name.
  const service = toolType === FORWARD_TYPE ? undefined : findToolService(services, String(toolType));
  return service && toolInvoker(parts, entry, service);
}

function targetAt(service: ServiceEntry): ToolTarget {
  return { transport: 'grpc', service: { id: service.name, address: serviceAddress(service) } };
}

function toolInvoker(parts: GrpcParts, tool: Entry, service: ServiceEntry): ServiceExecutor {
  const { loadGrpc, settings, log } = parts;
  return {
    target: targetAt(service),
    call(permit, client, requestId) {
      const args = parseArguments(permit.message);
      const request = toolRequest(tool, args, parts.droppedHeaders);
      return {
        request: describeUpstreamRequest('tool.ToolInvoker/InvokeTool', tool, serviceAddress(service)),
        summary: toolSummary(Object.keys(args), Object.keys(request.headers)),
        execute: ({ signal, trace }) =>
          sendRequest({ name: tool.name, service, requestId }, { log, signal }, async () => {
            const { channels, protocols, callUnary } = await loadGrpc();
            const channel = channels.get(serviceAddress(service));
            const { InvokeTool } = protocols.toolInvoker;
            const reply = await callUnary(channel, InvokeTool, request, { requestId, trace, signal }, settings);
            const content = checkContentSize(describeService(service), reply.content);
            const outcome = await contentOutcome(toolResult(client.era, content, reply.isError));
            return { ...outcome, report: { isError: reply.isError, content: contentOfTexts(content) } };
          }),
        onFailure: (error) => ({ outcome: () => toolFailure(client.era, error) }),
      };
    },
  };
}

function resourceAcquirer(parts: GrpcParts, resource: Entry, service: ServiceEntry): ServiceExecutor {
  const { loadGrpc, settings, log } = parts;
  const { name, definition } = resource;
  return {
    target: targetAt(service),
    call(permit, client, requestId) {
      const { uri = '' } = permit.target;
      const request = resourceRequest(resource, uri);
      const mimeType = stringMember(definition, 'mimeType');
      return {
        request: describeUpstreamRequest(
          'resource.ResourceAcquirer/ResourceAcquire',
          resource,
          serviceAddress(service),
        ),
        execute: ({ signal, trace }) =>
          sendRequest({ name, service, requestId }, { log, signal }, async () => {
            const { channels, protocols, callUnary } = await loadGrpc();
            const channel = channels.get(serviceAddress(service));
            const { ResourceAcquire } = protocols.resourceAcquirer;
            const reply = await callUnary(channel, ResourceAcquire, request, { requestId, trace, signal }, settings);
            const { isError, content } = reply;
            // Each text is repeated with uri and type.
            checkContentSize(describeService(service), content, BLOCK_BYTES + jsonBytes(uri) + jsonBytes(mimeType));
            if (!isError) return contentOutcome(resourceResult(client.era, uri, mimeType || 'text/plain', content));
            const text = content.join('\n') || `service ${service.name} answered with an error and no text`;
            throw new CallError('UNKNOWN', text, { errorType: RESOURCE_ERROR });
          }),
        onFailure: ({ category }) => {
          // Unlike tool calls, reads have no events.
          if (category === 'SERVICE_UNAVAILABLE') {
            log.warn('resource read failed', {
              resource: name,
              service: service.name,
              service_address: serviceAddress(service),
              service_request_id: requestId,
            });
          }
          return {};
        },
      };
    },
  };
}

/**
 * Builds the request to acquire a resource. `location` is the requested uri, which for a template differs from the registered
 * one.
 */
export function resourceRequest(resource: Entry, location: string): ResourceRequest {
  const { params } = resource.members;
  const pairs = Array.isArray(params) ? params.filter(isJsonObject) : [];
  return {
    location: location.toWellFormed(),
    type: stringMember(resource.members, 'type'),
    name: resource.name,
    params: Object.fromEntries(pairs.map((param) => [stringMember(param, 'name'), stringMember(param, 'value')])),
    configurationURI: stringMember(resource.members, 'configurationURI'),
    secretsURI: stringMember(resource.members, 'secretsURI'),
  };
}
