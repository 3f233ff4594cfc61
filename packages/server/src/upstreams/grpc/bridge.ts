import { serviceAddress } from '@sluice/contract';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { type Permit, requirePermit } from '../../access/access.ts';
import { type Entry, FORWARD_TYPE, type ServiceEntry } from '../../registry/entries.ts';
import { contentOfTexts, NO_CONTENT, toolCallIdentity, toolSummary } from '../../telemetry/tool-calls/event.ts';
import type { ClientFacts } from '../client-facts.ts';
import type { RequestOutcome } from '../deferred-outcome.ts';
import { findResourceService, findToolService } from './channels.ts';
import { CodeTools, type CodeToolsOptions } from './code-execution.ts';
import { resourceResult, toolResult } from './content-result.ts';
import type { ResourceRequest } from './generated/resource/ResourceRequest.ts';
import { callUnary } from './grpc-client.ts';
import { describeService, type GrpcOperation, type OperationResult, type RunningOperations } from './operation.ts';
import {
  BLOCK_BYTES,
  checkContentSize,
  describeUpstreamRequest,
  jsonBytes,
  parseArguments,
  serviceRequestId,
  stringMember,
  toolRequest,
} from './tool-operation.ts';

/** Error category of a read whose service returns an error. */
const RESOURCE_ERROR = 'resource_error';

export interface GrpcBridgeOptions extends CodeToolsOptions {
  readonly operations: Pick<RunningOperations, 'start'>;
}

/**
 * Bridge to capability services: invokes tools, acquires resources and executes code of entries whose type has a service.
 */
export class GrpcBridge {
  readonly #options: GrpcBridgeOptions;
  readonly #codeTools: CodeTools;

  constructor(options: GrpcBridgeOptions) {
    this.#options = options;
    this.#codeTools = new CodeTools(options);
  }

  /**
   * Outcome of a call of a service's tool, also of a code tool without a service; undefined for other tools.
   */
  tool(client: ClientFacts, permit: Permit): RequestOutcome | undefined {
    requirePermit(permit);
    const { message, entry: tool } = permit.target;
    if (!tool) return undefined;
    const codeOperation = this.#codeTools.operation(client, message, tool);
    if (codeOperation) return this.#outcome(codeOperation);
    // The forward type takes precedence over a service of that name.
    if (tool.members.toolType === FORWARD_TYPE) return undefined;
    const service = findToolService(this.#options.registry.current.services, String(tool.members.toolType));
    return service && this.#outcome(() => this.#toolOperation(client, message, tool, service));
  }

  /** Outcome of a read of a service's resource; undefined for other resources. */
  resource(client: ClientFacts, permit: Permit): RequestOutcome | undefined {
    requirePermit(permit);
    const { uri, entry: resource } = permit.target;
    const type = resource?.members.type;
    if (!resource || uri === undefined || type === FORWARD_TYPE) return undefined;
    const service = findResourceService(this.#options.registry.current.services, String(type));
    return service && this.#outcome(() => this.#resourceOperation(client, uri, resource, service));
  }

  #outcome(create: () => GrpcOperation): RequestOutcome {
    return { kind: 'deferred', start: (sink) => this.#options.operations.start(sink, create()) };
  }

  #toolOperation(client: ClientFacts, message: RequestMessage, tool: Entry, service: ServiceEntry): GrpcOperation {
    const { protocols, channels, settings, toolCalls } = this.#options;
    const address = serviceAddress(service);
    const requestId = serviceRequestId(client.correlation.requestId);
    const target = {
      transport: 'grpc',
      serviceId: service.name,
      serviceAddress: address,
      serviceRequestId: requestId,
    } as const;
    const observer = toolCalls.of(toolCallIdentity(client, tool, target), client.facts);
    const { InvokeTool } = protocols.toolInvoker;
    return {
      name: tool.name,
      service,
      requestId,
      async execute({ signal }) {
        const args = parseArguments(message);
        const request = toolRequest(tool, args);
        observer.begin(toolSummary(Object.keys(args), Object.keys(request.headers)));
        const trace = observer.send(describeUpstreamRequest(InvokeTool, tool, address));
        const call = { requestId, trace, signal };
        const reply = await callUnary(channels.get(address), InvokeTool, request, call, settings);
        const content = checkContentSize(describeService(service), reply.content);
        observer.completed(reply.isError, contentOfTexts(content));
        return toolResult(client.era, content, reply.isError);
      },
      onFailure({ category, message, errorType }) {
        observer.failed(category, message, errorType);
        return toolResult(client.era, [message], true);
      },
    };
  }

  #resourceOperation(client: ClientFacts, uri: string, resource: Entry, service: ServiceEntry): GrpcOperation {
    const { protocols, channels, settings, log } = this.#options;
    const requestId = serviceRequestId(client.correlation.requestId);
    const { ResourceAcquire } = protocols.resourceAcquirer;
    const observer = this.#options.toolCalls.request(client.facts);
    const error = (message: string): OperationResult => ({ kind: 'error', error: { code: INTERNAL_ERROR, message } });
    return {
      name: resource.name,
      service,
      requestId,
      async execute({ signal }) {
        const request = resourceRequest(resource, uri);
        const channel = channels.get(serviceAddress(service));
        const trace = observer.send(describeUpstreamRequest(ResourceAcquire, resource, serviceAddress(service)));
        const call = { requestId, trace, signal };
        const { isError, content } = await callUnary(channel, ResourceAcquire, request, call, settings);
        // Each text is repeated with uri and type.
        const blockBytes = BLOCK_BYTES + jsonBytes(uri) + jsonBytes(stringMember(resource.definition, 'mimeType'));
        checkContentSize(describeService(service), content, blockBytes);
        if (isError) {
          const text = content.join('\n') || `service ${service.name} answered with an error and no text`;
          observer.failed('UNKNOWN', text, RESOURCE_ERROR);
          return error(text);
        }
        observer.completed(false, NO_CONTENT);
        const mimeType = stringMember(resource.definition, 'mimeType') || 'text/plain';
        return resourceResult(client.era, uri, mimeType, content);
      },
      onFailure({ category, message, errorType }) {
        observer.failed(category, message, errorType);
        // Unlike tool calls, reads have no events.
        if (category === 'SERVICE_UNAVAILABLE') {
          log.warn('resource read failed', {
            resource: resource.name,
            service: service.name,
            service_address: serviceAddress(service),
            service_request_id: requestId,
          });
        }
        return error(message);
      },
    };
  }
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
