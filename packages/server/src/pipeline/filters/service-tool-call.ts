import { type Outcome, rpcError } from '../../answer/outcome.ts';
import type { Bridge } from '../../bridge/bridge.ts';
import type { Forwards } from '../../forwards/forwards.ts';
import type { CallRelay } from '../../forwards/relay.ts';
import type { DeclaredParams } from '../../mcp/declared-params.ts';
import { type Era, HEADER_MISMATCH, INVALID_PARAMS } from '../../mcp/protocol.ts';
import { resultText } from '../../mcp/result.ts';
import { type Entry, FORWARD_TYPE } from '../../registry/entries.ts';
import type { Filter } from '../chain.ts';

/** What {@link serviceToolCall} works with. */
interface ToolCallParts {
  readonly relay: CallRelay;
  readonly bridge: Pick<Bridge, 'tool'>;
  readonly forwards: Pick<Forwards, 'asking'>;
  readonly declaredParams: DeclaredParams;
}

/**
 * `tools/call`: finds the tool, compares the headers of a modern client with the arguments that the tool wants mirrored
 * in them (mcp 4), and hands the call to what carries it out (decisions 4.7, "Dispatch").
 */
export function serviceToolCall({ relay, bridge, forwards, declaredParams }: ToolCallParts): Filter {
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
    const { discovered } = tool;
    if (discovered) return relay.call(context, message, { kind: 'discovered', entry: tool, discovered });
    // A tool whose type says that it is forwarded is forwarded, whatever services are registered.
    const bridged = tool.members.toolType === FORWARD_TYPE ? undefined : bridge.tool(context, message, tool);
    if (bridged) return bridged;
    const address = upstreamAddress(tool);
    if (address === undefined) return noHost(tool, context.era);
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

function noHost(tool: Entry, era: Era): Outcome {
  const text = `There is no host registered for service ${String(tool.members.toolType)}`;
  return { kind: 'result', json: resultText(era, { content: [{ type: 'text', text }], isError: true }) };
}
