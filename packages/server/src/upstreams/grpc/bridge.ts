import { serviceAddress } from '@sluice/contract';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { type Entry, FORWARD_TYPE, type ServiceEntry } from '../../registry/entries.ts';
import { contentOfTexts, type ToolTarget, toolSummary } from '../../telemetry/tool-calls/event.ts';
import type { ClientFacts } from '../client-facts.ts';
import type { UpstreamConnection } from '../connection.ts';
import { CallError, type RunningOperations } from '../operation.ts';
import type { CallOutcome } from '../response-sink.ts';
import { findResourceService, findToolService } from './channels.ts';
import { CodeExecutor } from './code-execution.ts';
import { isCodeUri, parseCodeUri } from './code-request.ts';
import { contentJson, contentOutcome, resourceResult, toolResult } from './content-result.ts';
import type { ResourceRequest } from './generated/resource/ResourceRequest.ts';
import { callUnary } from './grpc-client.ts';
import {
  type GrpcParts,
  type ServiceCall,
  ServiceConnection,
  type ServiceExecutor,
  type ServiceInput,
} from './service-call.ts';
import { describeService, sendRequest } from './service-error.ts';
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

export interface GrpcBridgeOptions extends GrpcParts {
  readonly operations: Pick<RunningOperations, 'start'>;
}

/**
 * Bridge to capability services: invokes tools, acquires resources and executes code of entries whose type has a service.
 */
export class GrpcBridge {
  readonly #options: GrpcBridgeOptions;

  constructor(options: GrpcBridgeOptions) {
    this.#options = options;
  }

  /** Returns the connection that executes requests about an entry; undefined if no service does. */
  forEntry(entry: Entry): UpstreamConnection | undefined {
    const executor = this.#executor(entry);
    return executor && new ServiceConnection(executor, this.#options.operations);
  }

  #executor(entry: Entry): ServiceExecutor | undefined {
    const { services } = this.#options.registry.current;
    const { toolType, type } = entry.members;
    if (entry.kind === 'resource') {
      const service = type === FORWARD_TYPE ? undefined : findResourceService(services, String(type));
      return service && new ResourceAcquirer(this.#options, entry, service);
    }
    const uri = stringMember(entry.members, 'uri');
    // Whether or not there is a service for it.
    if (isCodeUri(uri)) return new CodeExecutor(this.#options, entry, parseCodeUri(uri));
    // The forward type takes precedence over a service of that name.
    const service = toolType === FORWARD_TYPE ? undefined : findToolService(services, String(toolType));
    return service && new ToolInvoker(this.#options, entry, service);
  }
}

class ToolInvoker implements ServiceExecutor {
  readonly target: ToolTarget;
  readonly #parts: GrpcParts;
  readonly #tool: Entry;
  readonly #service: ServiceEntry;

  constructor(parts: GrpcParts, tool: Entry, service: ServiceEntry) {
    this.#parts = parts;
    this.#tool = tool;
    this.#service = service;
    this.target = { transport: 'grpc', serviceId: service.name, serviceAddress: serviceAddress(service) };
  }

  call({ permit, client, requestId }: ServiceInput): ServiceCall {
    const { protocols, channels, settings, log } = this.#parts;
    const { name } = this.#tool;
    const service = this.#service;
    const { InvokeTool } = protocols.toolInvoker;
    const args = parseArguments(permit.message);
    const request = toolRequest(this.#tool, args);
    return {
      request: describeUpstreamRequest(InvokeTool, this.#tool, serviceAddress(service)),
      summary: toolSummary(Object.keys(args), Object.keys(request.headers)),
      execute: ({ signal, trace }) =>
        sendRequest({ name, service, requestId }, { log, signal }, async () => {
          const channel = channels.get(serviceAddress(service));
          const reply = await callUnary(channel, InvokeTool, request, { requestId, trace, signal }, settings);
          const content = checkContentSize(describeService(service), reply.content);
          const outcome = await contentOutcome(toolResult(client.era, content, reply.isError));
          return { ...outcome, report: { isError: reply.isError, content: contentOfTexts(content) } };
        }),
      onFailure: (error) => ({ outcome: () => this.failed(client, error) }),
    };
  }

  failed({ era }: ClientFacts, { message }: CallError): CallOutcome {
    return { kind: 'result', json: contentJson(toolResult(era, [message], true)) };
  }
}

class ResourceAcquirer implements ServiceExecutor {
  readonly target: ToolTarget;
  readonly #parts: GrpcParts;
  readonly #resource: Entry;
  readonly #service: ServiceEntry;

  constructor(parts: GrpcParts, resource: Entry, service: ServiceEntry) {
    this.#parts = parts;
    this.#resource = resource;
    this.#service = service;
    this.target = { transport: 'grpc', serviceId: service.name, serviceAddress: serviceAddress(service) };
  }

  call({ permit, client, requestId }: ServiceInput): ServiceCall {
    const { protocols, channels, settings, log } = this.#parts;
    const { uri = '' } = permit.target;
    const { name, definition } = this.#resource;
    const service = this.#service;
    const { ResourceAcquire } = protocols.resourceAcquirer;
    const request = resourceRequest(this.#resource, uri);
    const mimeType = stringMember(definition, 'mimeType');
    return {
      request: describeUpstreamRequest(ResourceAcquire, this.#resource, serviceAddress(service)),
      execute: ({ signal, trace }) =>
        sendRequest({ name, service, requestId }, { log, signal }, async () => {
          const channel = channels.get(serviceAddress(service));
          const reply = await callUnary(channel, ResourceAcquire, request, { requestId, trace, signal }, settings);
          const { isError, content } = reply;
          // Each text is repeated with uri and type.
          checkContentSize(describeService(service), content, BLOCK_BYTES + jsonBytes(uri) + jsonBytes(mimeType));
          if (!isError) return contentOutcome(resourceResult(client.era, uri, mimeType || 'text/plain', content));
          const text = content.join('\n') || `service ${service.name} answered with an error and no text`;
          throw new CallError('UNKNOWN', text, { errorType: RESOURCE_ERROR });
        }),
      onFailure: (error) => {
        // Unlike tool calls, reads have no events.
        if (error.category === 'SERVICE_UNAVAILABLE') {
          log.warn('resource read failed', {
            resource: name,
            service: service.name,
            service_address: serviceAddress(service),
            service_request_id: requestId,
          });
        }
        return { outcome: () => this.failed(client, error) };
      },
    };
  }

  failed(_client: ClientFacts, { message }: CallError): CallOutcome {
    return { kind: 'failed', error: { code: INTERNAL_ERROR, message } };
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
