import { HEADER_MISMATCH, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import type { Filter } from '../../http/chain.ts';
import { type Outcome, rpcError } from '../../http/context.ts';
import { type Entry, FORWARD_TYPE } from '../../registry/entries.ts';
import { LongIds } from '../../telemetry/correlation.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import type { ToolCallSink } from '../../telemetry/tool-calls/events.ts';
import { toolCallIdentity } from '../../telemetry/tool-calls/report.ts';
import type { Bridge } from '../../upstreams/grpc/bridge.ts';
import { serviceNotFoundMessage } from '../../upstreams/grpc/channel.ts';
import type { Forwards } from '../../upstreams/mcp/forwards.ts';
import { CancelableRequest, type InFlightCall, type InFlightCalls } from '../../upstreams/mcp/relay/in-flight.ts';
import type { Caller, CallRouter } from '../../upstreams/mcp/relay/relay.ts';
import type { DeclaredParams } from '../client-profile.ts';

/** What {@link serviceToolCall} works with. */
interface ToolCallParts {
  readonly relay: CallRouter;
  readonly bridge: Pick<Bridge, 'tool'>;
  readonly forwards: Pick<Forwards, 'asking'>;
  readonly calls: InFlightCalls<InFlightCall>;
  readonly declaredParams: DeclaredParams;
  readonly toolCalls: ToolCallSink;
  readonly log: TargetLogger;
}

/**
 * `tools/call`: finds the tool, compares the headers of a modern client with the arguments that the tool wants mirrored
 * in them (mcp 4), and hands the call to what carries it out (decisions 4.7, "Dispatch").
 */
export function serviceToolCall(parts: ToolCallParts): Filter {
  const { relay, bridge, forwards, calls, declaredParams, toolCalls, log } = parts;
  const longIds = new LongIds(log);
  return (context) => {
    const { message, namespace } = context;
    if (message?.kind !== 'request' || message.method !== 'tools/call' || !namespace) return undefined;
    const { name } = message.params;
    if (typeof name !== 'string') return rpcError(INVALID_PARAMS, 'missing required parameter: name');
    const tool = namespace.shelves.tool.get(name);
    if (!tool) return rpcError(INVALID_PARAMS, `tool not found: ${name}`);
    if (context.era === 'modern') {
      const problem = declaredParams.shownTo(context.capabilities, tool)?.problem(message, context.headers);
      if (problem !== undefined) return rpcError(HEADER_MISMATCH, `tool ${quoted(name)}: ${problem}`, 400);
    }
    if (context.observation) context.observation.subject = { kind: 'tool', name: tool.name };
    longIds.look(context.headers, name);
    const { discovered } = tool;
    if (discovered) return relay.call(context, message, { kind: 'discovered', entry: tool, discovered });
    const bridged = bridge.tool(context, message, tool);
    if (bridged) return bridged;
    const address = upstreamAddress(tool);
    if (address === undefined) return nowhere(context, tool, toolCalls);
    const call = (): Outcome => relay.call(context, message, { kind: 'addressed', entry: tool, address });
    const asking = forwards.asking(address);
    if (!asking) return call();
    // Until then its client can take it back, as it can a call.
    const waiting = new CancelableRequest(context, calls);
    return waiting.outcome(asking.then(() => (waiting.signal.aborted ? undefined : call())));
  };
}

/** A name as the client sent it, short enough to be repeated to it. */
function quoted(name: string): string {
  return JSON.stringify(name.slice(0, 100));
}

/** The upstream MCP server that a hand-made tool names; undefined when it names none that could be asked. */
function upstreamAddress(tool: Entry): string | undefined {
  const uri = httpUri(tool);
  return uri !== undefined && URL.canParse(uri) ? uri : undefined;
}

function httpUri({ members: { uri } }: Entry): string | undefined {
  return typeof uri === 'string' && /^https?:/.test(uri) ? uri : undefined;
}

/** What is answered, and told, of a call that nothing carries out (decisions 4.7 "Dispatch" 5, 6). */
function nowhere(caller: Caller, tool: Entry, toolCalls: ToolCallSink): Outcome {
  const { toolType } = tool.members;
  let text: string;
  if (toolType === FORWARD_TYPE || httpUri(tool) !== undefined) {
    text = `tool ${tool.name}: its uri must be an http:// or https:// address`;
    toolCalls.of(toolCallIdentity(caller, tool, { transport: 'mcp' })).failed('TOOL_DEFINITION_ERROR', text);
  } else {
    text = serviceNotFoundMessage(String(toolType));
    toolCalls.of(toolCallIdentity(caller, tool, { transport: 'grpc' })).failed('SERVICE_UNAVAILABLE', text);
  }
  return { kind: 'result', json: resultText(caller.era, { content: [{ type: 'text', text }], isError: true }) };
}
