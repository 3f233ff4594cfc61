import { serviceAddress } from '@sluice/contract';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import type { Outcome } from '../../http/context.ts';
import { type Entry, FORWARD_TYPE, type ServiceEntry } from '../../registry/entries.ts';
import type { Registry } from '../../registry/registry.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { type OutgoingCall, TOOL_ERROR } from '../../telemetry/request-telemetry.ts';
import type { ToolCallSink } from '../../telemetry/tool-calls/events.ts';
import { contentOfTexts, toolCallIdentity, toolSummary } from '../../telemetry/tool-calls/report.ts';
import type { Caller } from '../mcp/relay/relay.ts';
import { type BridgedAnswer, type BridgedCalls, type GrpcOperation, named } from './call.ts';
import { type Channels, type Protocols, serviceOfResource, serviceOfTool } from './channel.ts';
import { CodeTools } from './code-execution.ts';
import { resourceRequest, resourceResult } from './resources.ts';
import {
  argumentsOf,
  asked,
  BLOCK_BYTES,
  boundedContent,
  jsonBytes,
  serviceRequestId,
  textIn,
  toolRequest,
  toolResult,
} from './tools.ts';
import { type CallSettings, callUnary } from './unary.ts';

/** What a service's answer to a read is called that is an error. */
const SERVICE_SAYS_ERROR = 'resource_error';

/** What the bridge works with. */
export interface BridgeOptions {
  readonly registry: Pick<Registry, 'current'>;
  readonly protocols: Protocols;
  readonly channels: Pick<Channels, 'to'>;
  readonly calls: Pick<BridgedCalls, 'begin'>;
  readonly settings: CallSettings;
  readonly toolCalls: ToolCallSink;
  readonly log: TargetLogger;
}

/**
 * The bridge to capability services: carries out the tools and provides the resources that are registered with a type for
 * which there is a service, and has code executed (specification, "Capability-service protocols"; decisions 4.10).
 */
export class Bridge {
  readonly #options: BridgeOptions;
  readonly #codeTools: CodeTools;

  constructor(options: BridgeOptions) {
    this.#options = options;
    this.#codeTools = new CodeTools(options);
  }

  /**
   * The outcome that has a service carry the tool out, or say that none executes its code; undefined for tools that are no
   * service's (decisions 4.7 "Dispatch" 1 to 3).
   */
  tool(caller: Caller, message: RequestMessage, tool: Entry): Outcome | undefined {
    const executed = this.#codeTools.work(caller, message, tool);
    if (executed) return this.#outcome(caller, executed);
    // A tool whose type says that it is forwarded is forwarded, whatever services are registered.
    if (tool.members.toolType === FORWARD_TYPE) return undefined;
    const service = serviceOfTool(this.#options.registry.current.services, String(tool.members.toolType));
    return service && this.#outcome(caller, () => this.#toolWork(caller, message, tool, service));
  }

  /** The outcome that has a service provide the resource; undefined for resources that are no service's. */
  resource(caller: Caller, uri: string, resource: Entry): Outcome | undefined {
    const { type } = resource.members;
    if (type === FORWARD_TYPE) return undefined;
    const service = serviceOfResource(this.#options.registry.current.services, String(type));
    return service && this.#outcome(caller, () => this.#resourceWork(caller, uri, resource, service));
  }

  #outcome(caller: Caller, work: () => GrpcOperation): Outcome {
    return { kind: 'stream', start: (client) => this.#options.calls.begin(caller, client, work()) };
  }

  #toolWork(caller: Caller, message: RequestMessage, tool: Entry, service: ServiceEntry): GrpcOperation {
    const { protocols, channels, settings, toolCalls } = this.#options;
    const address = serviceAddress(service);
    const requestId = serviceRequestId(caller.correlation.requestId);
    const by = {
      transport: 'grpc',
      serviceId: service.name,
      serviceAddress: address,
      serviceRequestId: requestId,
    } as const;
    const report = toolCalls.of(toolCallIdentity(caller, tool, by));
    const { InvokeTool } = protocols.toolInvoker;
    let outgoing: OutgoingCall | undefined;
    return {
      name: tool.name,
      service,
      requestId,
      async carryOut({ signal }) {
        const args = argumentsOf(message);
        const request = toolRequest(tool, args);
        report.begin(toolSummary(args, Object.keys(request.headers)));
        outgoing = caller.observation?.ask(asked(InvokeTool, tool, address));
        const call = { requestId, trace: outgoing?.trace, signal };
        const reply = await callUnary(channels.to(address), InvokeTool, request, call, settings);
        const content = boundedContent(named(service), reply.content);
        report.completed(reply.isError, contentOfTexts(content));
        outgoing?.end(reply.isError ? TOOL_ERROR : undefined);
        return toolResult(caller.era, content, reply.isError);
      },
      failed({ category, message: why }) {
        report.failed(category, why);
        outgoing?.end(category);
        return toolResult(caller.era, [why], true);
      },
    };
  }

  #resourceWork(caller: Caller, uri: string, resource: Entry, service: ServiceEntry): GrpcOperation {
    const { protocols, channels, settings, log } = this.#options;
    const requestId = serviceRequestId(caller.correlation.requestId);
    const { ResourceAcquire } = protocols.resourceAcquirer;
    let outgoing: OutgoingCall | undefined;
    const error = (message: string): BridgedAnswer => ({ kind: 'error', error: { code: INTERNAL_ERROR, message } });
    return {
      name: resource.name,
      service,
      requestId,
      async carryOut({ signal }) {
        const request = resourceRequest(resource, uri);
        const client = channels.to(serviceAddress(service));
        outgoing = caller.observation?.ask(asked(ResourceAcquire, resource, serviceAddress(service)));
        const call = { requestId, trace: outgoing?.trace, signal };
        const { isError, content } = await callUnary(client, ResourceAcquire, request, call, settings);
        // Each text has the uri and the type beside it.
        const blockBytes = BLOCK_BYTES + jsonBytes(uri) + jsonBytes(textIn(resource.definition, 'mimeType'));
        boundedContent(named(service), content, blockBytes);
        outgoing?.end(isError ? SERVICE_SAYS_ERROR : undefined);
        if (isError) return error(content.join('\n') || `service ${service.name} answered with an error and no text`);
        return { kind: 'result', json: resourceResult(caller.era, uri, resource, content) };
      },
      failed({ category, message }) {
        outgoing?.end(category);
        // Reads have no events that would tell it (decisions 6).
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
