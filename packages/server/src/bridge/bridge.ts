import type { Client } from '@grpc/grpc-js';
import { serviceAddress } from '@sluice/contract';
import { isJsonObject, type JsonObject, parseLossless } from '@sluice/json/lossless';
import type { Outcome } from '../answer/outcome.ts';
import type { CallUnderWay } from '../forwards/call-under-way.ts';
import type { CallsUnderWay } from '../forwards/calls-under-way.ts';
import type { Caller } from '../forwards/relay.ts';
import type { RequestMessage } from '../mcp/message.ts';
import { paramText } from '../mcp/params-text.ts';
import type { Era } from '../mcp/protocol.ts';
import { resultText } from '../mcp/result.ts';
import type { Entry, ServiceEntry } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import { BridgedCall, type BridgedWork, failure } from './bridged-call.ts';
import { Channels } from './channels.ts';
import type { Protocols } from './protocols.ts';
import { requestIdOf } from './request-id.ts';
import { serviceOfResource, serviceOfTool } from './resolution.ts';
import { resourceRequest } from './resource-request.ts';
import { toolRequest } from './tool-request.ts';
import { type CallSettings, callUnary } from './unary.ts';
import { toServiceError } from './unavailable.ts';

/** What the bridge works with. */
export interface BridgeOptions {
  readonly registry: Pick<Registry, 'current'>;
  readonly protocols: Protocols;
  readonly calls: CallsUnderWay<CallUnderWay>;
  readonly settings: CallSettings;
}

/**
 * The bridge to capability services: carries out the tools and provides the resources that are registered with a type for
 * which there is a service (specification, "Capability-service protocols"; decisions 4.7 "Dispatch", 4.10).
 */
export class Bridge {
  readonly #options: BridgeOptions;
  readonly #channels = new Channels();

  constructor(options: BridgeOptions) {
    this.#options = options;
  }

  /** The outcome that has a service carry the tool out; undefined when none is registered for its type. */
  tool(caller: Caller, message: RequestMessage, tool: Entry): Outcome | undefined {
    const { registry, protocols, settings } = this.#options;
    const service = serviceOfTool(registry.current.services, String(tool.members.toolType));
    if (!service) return undefined;
    return this.#outcome(caller, async (signal) => {
      try {
        const request = toolRequest(tool, argumentsOf(message));
        const call = { requestId: requestIdOf(caller.headers), signal };
        const reply = await callUnary(this.#to(service), protocols.toolInvoker.InvokeTool, request, call, settings);
        return { kind: 'result', json: toolResult(caller.era, reply.content, reply.isError) };
      } catch (error) {
        return { kind: 'result', json: toolResult(caller.era, [toServiceError(error, service).message], true) };
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
        if (isError) return failure(content.join('\n'));
        const { mimeType } = resource.definition;
        const type = typeof mimeType === 'string' && mimeType !== '' ? mimeType : 'text/plain';
        const contents = content.map((text) => ({ uri, mimeType: type, text }));
        return { kind: 'result', json: resultText(caller.era, { contents }) };
      } catch (error) {
        return failure(toServiceError(error, service).message);
      }
    });
  }

  close(): void {
    this.#channels.close();
  }

  #to(service: ServiceEntry): Client {
    return this.#channels.to(serviceAddress(service));
  }

  #outcome(caller: Caller, work: BridgedWork): Outcome {
    return {
      kind: 'stream',
      start: (client) => void new BridgedCall(caller, client, this.#options.calls).run(work),
    };
  }
}

/** The arguments of a call, numbers as they were spelled; none where they are no object. */
function argumentsOf({ text }: RequestMessage): JsonObject {
  const given = parseLossless(paramText(text, 'arguments') ?? '{}');
  return isJsonObject(given) ? given : {};
}

/** A tool's result: a text for each content of the reply (specification, "Request-building rules" 5). */
function toolResult(era: Era, content: readonly string[], isError: boolean): string {
  return resultText(era, { content: content.map((text) => ({ type: 'text', text })), isError });
}
