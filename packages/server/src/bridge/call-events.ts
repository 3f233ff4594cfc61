import { serviceAddress, type ToolCallTransport } from '@sluice/contract';
import type { Caller } from '../forwards/relay.ts';
import type { Entry, ServiceEntry } from '../registry/entries.ts';
import { contentOfTexts } from '../telemetry/tool-calls/event-content.ts';
import { codeSummary } from '../telemetry/tool-calls/request-summary.ts';
import { ToldCall } from '../telemetry/tool-calls/told-call.ts';
import type { ToolCallSink } from '../telemetry/tool-calls/tool-call-events.ts';
import { codeToolName, type ToolCallIdentity } from '../telemetry/tool-calls/tool-call-identity.ts';
import type { WatchCode } from './code-steps.ts';

/** What events say of a call to a capability service; `service` is undefined where none is registered (decisions 6). */
export function callIdentity(
  caller: Caller,
  tool: Entry,
  service: ServiceEntry | undefined,
  transport: ToolCallTransport = 'grpc',
  toolName: string = tool.name,
): ToolCallIdentity {
  const { conversationId, requestId } = caller.correlation;
  return {
    transport,
    namespace: caller.namespace?.name ?? '',
    toolName,
    toolType: String(tool.members.toolType),
    serviceId: service?.name,
    serviceAddress: service ? serviceAddress(service) : '',
    conversationId,
    requestId,
  };
}

/** Tells the executions of code (decisions 6). */
export function tellCode(events: ToolCallSink): WatchCode {
  return ({ caller, tool, target }) => {
    const name = target ? codeToolName(target.engine, target.language) : tool.name;
    const identity = (service?: ServiceEntry) => callIdentity(caller, tool, service, 'code', name);
    const told = new ToldCall(events, identity());
    return (step) => {
      switch (step.kind) {
        case 'started':
          return told.begin(codeSummary(step.argumentCount), identity(step.service));
        case 'completed':
          return told.completed(false, contentOfTexts(step.content));
        case 'failed':
          return told.failed(step.category, step.message);
      }
    };
  };
}
