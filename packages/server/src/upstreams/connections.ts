import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import type { Permit } from '../access/access.ts';
import type { Target } from '../access/target.ts';
import { type Entry, FORWARD_TYPE } from '../registry/entries.ts';
import type { ClientFacts } from './client-facts.ts';
import type { RejectedCall, UpstreamConnection } from './connection.ts';
import { serviceNotFoundMessage } from './grpc/services.ts';
import { failureOf } from './mcp/mcp-connection.ts';
import { type CallFailure, failedOutcome } from './response-sink.ts';

/** Where connections are found. */
export interface ConnectionSources {
  /** The connection of a forward; undefined if it is no longer registered. */
  forward(name: string): UpstreamConnection | undefined;
  /** The connection that executes requests about an entry registered by hand; undefined if there is none. */
  entry(entry: Entry): UpstreamConnection | undefined;
  /** The connection to the MCP server at this address, which a tool registered by hand names. */
  server(address: string): UpstreamConnection;
}

/** Returns the connection that executes a request about a target: always one, which rejects what cannot be executed. */
export function connectionOf({ forward, entry, address }: Target, sources: ConnectionSources): UpstreamConnection {
  if (forward !== undefined) return sources.forward(forward) ?? missingForward(forward);
  const executor = entry && sources.entry(entry);
  if (executor) return executor;
  return address === undefined ? UNEXECUTABLE : sources.server(address);
}

/** In place of a connection that does not exist. */
function rejecting(describe: (permit: Permit, client: ClientFacts) => RejectedCall): UpstreamConnection {
  return {
    address: '',
    createsTasks: false,
    describe,
    request() {
      throw new Error('a rejected call must not be sent');
    },
  };
}

/** In place of the connection of a forward that was removed meanwhile. */
function missingForward(name: string): UpstreamConnection {
  return rejecting(({ message }) => {
    const text = `${failureOf(message.method)}: forward "${name}" is no longer registered`;
    const error = { code: INTERNAL_ERROR, message: text };
    const outcome = failedOutcome(error, 'SERVICE_UNAVAILABLE', 'SERVICE_UNAVAILABLE');
    return { kind: 'rejected', target: { transport: 'mcp' }, outcome };
  });
}

/** In place of the connection of an entry whose type no capability service has. */
const UNEXECUTABLE = rejecting(({ target: { entry } }, { era }) => {
  const { toolType, type, uri } = entry?.members ?? {};
  if (entry?.kind !== 'tool') {
    const error = { code: INTERNAL_ERROR, message: serviceNotFoundMessage(String(type)) };
    const outcome = failedOutcome(error, 'SERVICE_UNAVAILABLE', 'SERVICE_UNAVAILABLE');
    return { kind: 'rejected', target: { transport: 'grpc' }, outcome };
  }
  const isMcp = toolType === FORWARD_TYPE || /^https?:/.test(String(uri));
  const text = isMcp
    ? `tool ${entry.name}: its uri must be an http:// or https:// address`
    : serviceNotFoundMessage(String(toolType));
  const category = isMcp ? 'TOOL_DEFINITION_ERROR' : 'SERVICE_UNAVAILABLE';
  const report: CallFailure = { category, message: text, errorType: category };
  const json = resultText(era, { content: [{ type: 'text', text }], isError: true });
  const target = { transport: isMcp ? 'mcp' : 'grpc' } as const;
  return { kind: 'rejected', target, outcome: { kind: 'result', json, report } };
});
