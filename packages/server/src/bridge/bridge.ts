import type { Client } from '@grpc/grpc-js';
import { serviceAddress } from '@sluice/contract';
import type { Outcome } from '../answer/outcome.ts';
import type { Caller } from '../forwards/relay.ts';
import type { RequestMessage } from '../mcp/message.ts';
import type { Entry, ServiceEntry } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import { contentOfTexts } from '../telemetry/tool-calls/event-content.ts';
import { toolSummary } from '../telemetry/tool-calls/request-summary.ts';
import { ToldCall } from '../telemetry/tool-calls/told-call.ts';
import type { ToolCallSink } from '../telemetry/tool-calls/tool-call-events.ts';
import { type BridgedWork, failure, whyEnded } from './bridged-call.ts';
import type { BridgedCalls } from './bridged-calls.ts';
import { argumentsOf } from './call-arguments.ts';
import { callIdentity } from './call-events.ts';
import type { Channels } from './channels.ts';
import type { Protocols } from './protocols.ts';
import { requestIdOf } from './request-id.ts';
import { serviceOfResource, serviceOfTool } from './resolution.ts';
import { resourceRequest } from './resource-request.ts';
import { resourceResult } from './resource-result.ts';
import { toolRequest } from './tool-request.ts';
import { toolResult } from './tool-result.ts';
import { type CallSettings, callUnary } from './unary.ts';
import { toServiceError } from './unavailable.ts';

/** What the bridge works with. */
export interface BridgeOptions {
  readonly registry: Pick<Registry, 'current'>;
  readonly protocols: Protocols;
  readonly channels: Pick<Channels, 'to'>;
  readonly calls: Pick<BridgedCalls, 'begin'>;
  readonly settings: CallSettings;
  readonly toolCalls: ToolCallSink;
}

/**
 * The bridge to capability services: carries out the tools and provides the resources that are registered with a type for
 * which there is a service (specification, "Capability-service protocols"; decisions 4.7 "Dispatch", 4.10).
 */
export class Bridge {
  readonly #options: BridgeOptions;

  constructor(options: BridgeOptions) {
    this.#options = options;
  }

  /** The outcome that has a service carry the tool out; undefined when none is registered for its type. */
  tool(caller: Caller, message: RequestMessage, tool: Entry): Outcome | undefined {
    const { registry, protocols, settings, toolCalls } = this.#options;
    const service = serviceOfTool(registry.current.services, String(tool.members.toolType));
    if (!service) return undefined;
    return this.#outcome(caller, async (signal) => {
      const told = new ToldCall(toolCalls, callIdentity(caller, tool, service));
      try {
        const args = argumentsOf(message);
        const request = toolRequest(tool, args);
        told.begin(toolSummary(args, Object.keys(request.headers ?? {})));
        const call = { requestId: requestIdOf(caller.headers), signal };
        const reply = await callUnary(this.#to(service), protocols.toolInvoker.InvokeTool, request, call, settings);
        told.completed(reply.isError, contentOfTexts(reply.content));
        return { kind: 'result', json: toolResult(caller.era, reply.content, reply.isError) };
      } catch (error) {
        const failed = toServiceError(error, service);
        // Where nobody waits any more, nothing is wrong with the service.
        if (signal.aborted) told.failed('UNKNOWN', whyEnded(signal));
        else told.failed(failed.category, failed.message);
        return { kind: 'result', json: toolResult(caller.era, [failed.message], true) };
      }
    });
  }

  /** The outcome that has a service provide the resource; undefined when none is registered for its type. */
  resource(caller: Caller, uri: string, resource: Entry): Outcome | undefined {
    const { registry, protocols, settings } = this.#options;
    const service = serviceOfResource(registry.current.services, String(resource.members.type));
    if (!service) return undefined;
    return this.#outcome(caller, async (signal) => {
      try {
        const method = protocols.resourceAcquirer.ResourceAcquire;
        const call = { requestId: requestIdOf(caller.headers), signal };
        const { isError, content } = await callUnary(
          this.#to(service),
          method,
          resourceRequest(resource, uri),
          call,
          settings,
        );
        if (isError) return failure(content.join('\n') || `service ${service.name} answered with an error and no text`);
        return { kind: 'result', json: resourceResult(caller.era, uri, resource, content) };
      } catch (error) {
        return failure(toServiceError(error, service).message);
      }
    });
  }

  #to(service: ServiceEntry): Client {
    return this.#options.channels.to(serviceAddress(service));
  }

  #outcome(caller: Caller, work: BridgedWork): Outcome {
    return { kind: 'stream', start: (client) => this.#options.calls.begin(caller, client, work) };
  }
}
