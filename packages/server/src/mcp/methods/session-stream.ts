import { acceptsEventStream } from '@sluice/protocol/mcp/accept';
import {
  HEADER_LAST_EVENT_ID,
  INTERNAL_ERROR,
  INVALID_REQUEST,
  LIST_CHANGED_METHODS,
  POLLING_VERSION,
} from '@sluice/protocol/mcp/constants';
import { rpcError } from '../../http/outcome.ts';
import type { DownstreamClient } from '../../upstreams/downstream.ts';
import type { SessionBindings } from '../../upstreams/mcp/sessions/session-bindings.ts';
import type { CreatedTasks } from '../../upstreams/mcp/tasks/created-tasks.ts';
import type { SessionTasks } from '../../upstreams/mcp/tasks/watcher.ts';
import type { UpstreamHeaders } from '../../upstreams/upstream-headers.ts';
import type { ClientSink } from '../client-sink.ts';
import type { McpExchange, McpOutcome } from '../exchange.ts';
import { type ListChangeNotifier, SessionListChanges } from '../list-changes.ts';
import { endAtExpiry, NO_EVENT_STREAMS, type OpenStreams } from '../open-streams.ts';
import type { EventStore } from '../sessions/event-store.ts';
import type { ClientStream } from '../sessions/resumable-streams.ts';
import type { ClientSession } from '../sessions/sessions.ts';

/** Dependencies of {@link notificationStream}. */
interface SessionStreamParts {
  readonly events: EventStore;
  readonly listChanges: ListChangeNotifier;
  readonly openStreams: OpenStreams;
  readonly sessionBindings: SessionBindings;
  readonly sessionTasks: Pick<SessionTasks, 'onListening'>;
  readonly createdTasks: Pick<CreatedTasks, 'interruptedCall'>;
  readonly upstreamHeaders: UpstreamHeaders;
}

/** For requests without a message that nothing serves. */
export const METHOD_NOT_ALLOWED: McpOutcome = {
  kind: 'plain',
  status: 405,
  headers: ['Allow', 'GET, POST, DELETE, OPTIONS'],
};

/**
 * GET of a legacy session: its notification stream or, with `Last-Event-ID`, the rest of an interrupted stream (2025-11-25,
 * "Listening for Messages from the Server"). If the stream is no longer stored, the response is an error.
 */
export function notificationStream(
  exchange: McpExchange,
  session: ClientSession,
  parts: SessionStreamParts,
): McpOutcome | Promise<McpOutcome> {
  const { accept, [HEADER_LAST_EVENT_ID]: lastEventId } = exchange.headers;
  if (!acceptsEventStream(accept)) return NO_EVENT_STREAMS;
  const headers = parts.upstreamHeaders(exchange.headers);
  // A GET cannot have a JSON-RPC response.
  if (!headers) return rpcError(INVALID_REQUEST, 'forwarding loop', 508);
  const listening = { session, principal: exchange.principal, headers };
  if (typeof lastEventId !== 'string') return open(listening, parts, false);
  const resumption = parts.events.find(session.id, lastEventId);
  switch (resumption.kind) {
    case 'foreign':
      return rpcError(INVALID_REQUEST, 'header Last-Event-ID does not identify an event of this session', 400);
    case 'stream':
      return { kind: 'deferred', start: (client) => resume(client, resumption) };
    case 'complete':
      // An empty stream would be one more to resume, endlessly.
      return METHOD_NOT_ALLOWED;
    case 'lost':
      if (resumption.idText !== undefined) {
        return resumeAfterRestart(resumption.idText, resumption.restarted, lastEventId, headers, session, parts);
      }
      // Displaced by newer streams, which have carried everything since: another one would displace those in turn.
      if (session.active?.isConnected) {
        return rpcError(INVALID_REQUEST, 'a newer notification stream of this session is open', 409);
      }
      return open(listening, parts, true);
  }
}

/** A new notification stream. `hasMissedMessages`: the client had one before whose pending messages are lost. */
function open(
  listening: Omit<DownstreamClient, 'session'> & { readonly session: ClientSession },
  { listChanges, openStreams, sessionBindings, sessionTasks }: SessionStreamParts,
  hasMissedMessages: boolean,
): McpOutcome {
  const { session, headers } = listening;
  const start = (client: ClientSink): void => {
    const channel = session.channel();
    // Stored messages for a stream that is not resumed are never delivered.
    const gap = channel.takeUnread() || hasMissedMessages;
    const first = !channel.isListening;
    let remove = (): void => undefined;
    const stream = channel.openStream(() => remove());
    remove = openStreams.add({ end: () => channel.closeStream(stream) });
    if (first) new SessionListChanges(channel, listChanges, session.namespace);
    attach(client, { stream });
    // Flushes the response head in either case.
    if (session.protocolVersion >= POLLING_VERSION) stream.sendInitialEventId();
    else stream.keepAlive();
    if (gap) for (const method of LIST_CHANGED_METHODS) stream.send(`{"jsonrpc":"2.0","method":"${method}"}`);
    sessionBindings.onListening(listening, gap);
    sessionTasks.onListening(session, headers);
  };
  return { kind: 'deferred', start };
}

/** A stream, and the last event that the client has seen of it; undefined if it is new. */
interface Position {
  readonly stream: ClientStream;
  readonly after?: number;
}

/** Sends a stream until the credential of this request expires. The client can resume it with another one. */
function attach({ writer, client }: ClientSink, { stream, after }: Position): void {
  const { response } = writer;
  if (client.authenticated)
    response.on(
      'close',
      endAtExpiry(client.authenticated, () => stream.release(response)),
    );
  writer.attachStream(stream, after);
}

function resume(client: ClientSink, position: Position): void {
  attach(client, position);
  // Flushes the response head when there is nothing to resend.
  position.stream.keepAlive();
}

/** The rest of the stream of a call: a call that waits for a task continues in this process, the outcome of others is unknown. */
async function resumeAfterRestart(
  idText: string,
  restarted: boolean,
  lastEventId: string,
  headers: readonly string[],
  session: ClientSession,
  { events, createdTasks }: SessionStreamParts,
): Promise<McpOutcome> {
  const resumeTask = restarted ? await createdTasks.interruptedCall(session, idText, headers) : undefined;
  return {
    kind: 'deferred',
    idText,
    start: (client) => {
      // The client may have resumed it twice at once.
      const other = events.find(session.id, lastEventId);
      if (other.kind === 'stream') return resume(client, other);
      // Also the stream of an error can be resumed: official clients reconnect after an error, and without an event id they
      // would open one more notification stream.
      const stream = events.continue(session, idText, lastEventId);
      attach(client, { stream });
      if (!resumeTask) return stream.end(unknownOutcome(idText, restarted));
      stream.sendInitialEventId();
      resumeTask(client);
    },
  };
}

function unknownOutcome(idText: string, restarted: boolean): string {
  const message = restarted ? 'outcome unknown after restart' : 'the response is no longer stored';
  return `{"jsonrpc":"2.0","id":${idText},"error":{"code":${INTERNAL_ERROR},"message":"${message}"}}`;
}

/** DELETE of a legacy session. */
export async function endSession(session: ClientSession): Promise<McpOutcome> {
  await session.change('end');
  return { kind: 'plain', status: 204 };
}
