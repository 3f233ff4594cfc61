import { type Outcome, rpcError } from '../../answer/outcome.ts';
import type { Bridge } from '../../bridge/bridge.ts';
import { callIdentity } from '../../bridge/call-events.ts';
import type { CodeTools } from '../../bridge/code-tools.ts';
import { noHost as noHostMessage } from '../../bridge/resolution.ts';
import type { Forwards } from '../../forwards/forwards.ts';
import type { Caller, CallRelay } from '../../forwards/relay.ts';
import type { DeclaredParams } from '../../mcp/declared-params.ts';
import { HEADER_MISMATCH, INVALID_PARAMS } from '../../mcp/protocol.ts';
import { resultText } from '../../mcp/result.ts';
import { type Entry, FORWARD_TYPE } from '../../registry/entries.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { idsTooLong } from '../../telemetry/tool-calls/correlation.ts';
import type { ToolCallSink } from '../../telemetry/tool-calls/tool-call-events.ts';
import type { Filter } from '../chain.ts';

/** What {@link serviceToolCall} works with. */
interface ToolCallParts {
  readonly relay: CallRelay;
  readonly bridge: Pick<Bridge, 'tool'>;
  readonly codeTools: Pick<CodeTools, 'call'>;
  readonly forwards: Pick<Forwards, 'asking'>;
  readonly declaredParams: DeclaredParams;
  readonly toolCalls: Pick<ToolCallSink, 'refused'>;
  readonly log: TargetLogger;
}

/**
 * `tools/call`: finds the tool, compares the headers of a modern client with the arguments that the tool wants mirrored
 * in them (mcp 4), and hands the call to what carries it out (decisions 4.7, "Dispatch").
 */
export function serviceToolCall(parts: ToolCallParts): Filter {
  const { relay, bridge, codeTools, forwards, declaredParams, toolCalls, log } = parts;
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
    for (const header of idsTooLong(context.headers)) {
      log.warn(`${header} has more than 256 bytes: it is ignored; send a shorter one`, { tool: name });
    }
    const { discovered } = tool;
    if (discovered) return relay.call(context, message, { kind: 'discovered', entry: tool, discovered });
    const executed = codeTools.call(context, message, tool);
    if (executed) return executed;
    // A tool whose type says that it is forwarded is forwarded, whatever services are registered.
    const bridged = tool.members.toolType === FORWARD_TYPE ? undefined : bridge.tool(context, message, tool);
    if (bridged) return bridged;
    const address = upstreamAddress(tool);
    if (address === undefined) return noHost(context, tool, toolCalls);
    const call = (): Outcome => relay.call(context, message, { kind: 'addressed', entry: tool, address });
    return forwards.asking(address)?.then(call) ?? call();
  };
}

/** A name as the client sent it, short enough to be repeated to it. */
function quoted(name: string): string {
  return JSON.stringify(name.slice(0, 100));
}

/** The upstream MCP server that a hand-made tool names; undefined when nothing that is registered carries it out. */
function upstreamAddress(tool: Entry): string | undefined {
  const { uri } = tool.members;
  if (typeof uri !== 'string' || !/^https?:/.test(uri)) return undefined;
  return URL.canParse(uri) ? uri : undefined;
}

function noHost(caller: Caller, tool: Entry, toolCalls: Pick<ToolCallSink, 'refused'>): Outcome {
  const text = noHostMessage(String(tool.members.toolType));
  toolCalls.refused(callIdentity(caller, tool, undefined), 'SERVICE_UNAVAILABLE', text);
  return { kind: 'result', json: resultText(caller.era, { content: [{ type: 'text', text }], isError: true }) };
}
