import { HEADER_MISMATCH, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import { rpcError } from '../../http/outcome.ts';
import { type Entry, FORWARD_TYPE } from '../../registry/entries.ts';
import { OversizedIdWarner } from '../../telemetry/caller.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { boundedSubject } from '../../telemetry/redaction.ts';
import { toolCallIdentity } from '../../telemetry/tool-calls/event.ts';
import type { ToolCallSink } from '../../telemetry/tool-calls/events.ts';
import type { Caller } from '../../upstreams/downstream.ts';
import type { GrpcBridge } from '../../upstreams/grpc/bridge.ts';
import { serviceNotFoundMessage } from '../../upstreams/grpc/channels.ts';
import type { Forwards } from '../../upstreams/mcp/forwards.ts';
import { CancelableRequest, type InFlightCall, type InFlightCalls } from '../../upstreams/mcp/relay/in-flight-calls.ts';
import type { CallRouter } from '../../upstreams/mcp/relay/router.ts';
import type { DeclaredParams } from '../client-profile.ts';
import type { McpFilter, McpMethodFilter, McpOutcome } from '../request.ts';

/** Dependencies of {@link serviceToolCall}. */
interface ToolCallParts {
  readonly relay: CallRouter;
  readonly bridge: Pick<GrpcBridge, 'tool'>;
  readonly forwards: Pick<Forwards, 'ensureEraKnown'>;
  readonly calls: InFlightCalls<InFlightCall>;
  readonly declaredParams: DeclaredParams;
  readonly toolCalls: ToolCallSink;
  readonly log: TargetLogger;
}

/**
 * `tools/call`: finds the tool, compares the headers of a modern client with the arguments that the tool mirrors in
 * headers (mcp 4), and dispatches the call to its executor (decisions 4.7, "Dispatch").
 */
export function serviceToolCall(parts: ToolCallParts): McpMethodFilter {
  const { relay, bridge, forwards, calls, declaredParams, toolCalls, log } = parts;
  const oversizedIds = new OversizedIdWarner(log);
  const filter: McpFilter = (context) => {
    const { message, namespace } = context;
    if (message?.kind !== 'request' || !namespace) return undefined;
    const { name } = message.params;
    if (typeof name !== 'string') return rpcError(INVALID_PARAMS, 'missing required parameter: name');
    const tool = namespace.indexes.tool.get(name);
    if (!tool) return rpcError(INVALID_PARAMS, `tool not found: ${name}`);
    const declared = declaredParams.of(tool);
    if (declared && context.era === 'modern') {
      const problem = declared.shownTo(context.capabilities)?.problem(message, context.headers);
      if (problem !== undefined) return rpcError(HEADER_MISMATCH, `tool ${quoted(name)}: ${problem}`, 400);
    }
    if (context.observation) context.observation.subject = boundedSubject({ kind: 'tool', name: tool.name });
    const { oversizedHeader } = context.correlation;
    if (oversizedHeader !== undefined) oversizedIds.warn(oversizedHeader, name);
    const { discovered } = tool;
    const mirrored = declared?.expectedOf(context.capabilities);
    if (discovered) {
      const { forward, upstreamKey: upstreamName } = discovered;
      return relay.call(context, message, { forward, entry: tool, upstreamName, mirrored });
    }
    const bridged = bridge.tool(context, message, tool);
    if (bridged) return bridged;
    const address = upstreamAddress(tool);
    if (address === undefined) return nowhere(context, tool, toolCalls);
    const call = (): McpOutcome => relay.call(context, message, { address, entry: tool, mirrored });
    const asking = forwards.ensureEraKnown(address);
    if (!asking) return call();
    // Until then the client can cancel it like a call.
    const waiting = new CancelableRequest(context, calls);
    return waiting.outcome(asking.then(() => (waiting.signal.aborted ? undefined : call())));
  };
  return { methods: ['tools/call'], filter };
}

/** A name as the client sent it, short enough to be repeated to it. */
function quoted(name: string): string {
  return JSON.stringify(name.slice(0, 100));
}

/** The upstream MCP server of a hand-made tool; undefined without a callable one. */
function upstreamAddress(tool: Entry): string | undefined {
  const uri = httpUri(tool);
  return uri !== undefined && URL.canParse(uri) ? uri : undefined;
}

function httpUri({ members: { uri } }: Entry): string | undefined {
  return typeof uri === 'string' && /^https?:/.test(uri) ? uri : undefined;
}

/** Response to, and record of, a call without an executor (decisions 4.7 "Dispatch" 5, 6). */
function nowhere(caller: Caller, tool: Entry, toolCalls: ToolCallSink): McpOutcome {
  const { toolType } = tool.members;
  let text: string;
  if (toolType === FORWARD_TYPE || httpUri(tool) !== undefined) {
    text = `tool ${tool.name}: its uri must be an http:// or https:// address`;
    toolCalls
      .of(toolCallIdentity(caller, tool, { transport: 'mcp' }), caller.observation)
      .failed('TOOL_DEFINITION_ERROR', text);
  } else {
    text = serviceNotFoundMessage(String(toolType));
    toolCalls
      .of(toolCallIdentity(caller, tool, { transport: 'grpc' }), caller.observation)
      .failed('SERVICE_UNAVAILABLE', text);
  }
  return { kind: 'result', json: resultText(caller.era, { content: [{ type: 'text', text }], isError: true }) };
}
