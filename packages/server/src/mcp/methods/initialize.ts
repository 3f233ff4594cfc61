import { isJsonObject } from '@sluice/protocol/json/parse';
import { acceptsEventStream } from '@sluice/protocol/mcp/accept';
import { isLogLevel } from '@sluice/protocol/mcp/capabilities';
import {
  HEADER_LAST_EVENT_ID,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  INVALID_REQUEST,
  LIST_CHANGED_METHODS,
  POLLING_VERSION,
} from '@sluice/protocol/mcp/constants';
import {
  type NotificationMessage,
  paramText,
  type RequestMessage,
  type ResponseMessage,
} from '@sluice/protocol/mcp/message';
import { UpstreamError } from '../../http/client/errors.ts';
import { rpcError } from '../../http/outcome.ts';
import type { Registry } from '../../registry/registry.ts';
import type { NamespaceState } from '../../registry/snapshot.ts';
import type { InFlightCalls } from '../../upstreams/in-flight-calls.ts';
import type { SessionBindings } from '../../upstreams/mcp/sessions/session-bindings.ts';
import type { CreatedTasks } from '../../upstreams/mcp/tasks/created-tasks.ts';
import type { SessionTasks } from '../../upstreams/mcp/tasks/watcher.ts';
import type { UpstreamHeaders } from '../../upstreams/upstream-headers.ts';
import { boundedClientInfo } from '../client-info.ts';
import type { ClientProfiles } from '../client-profile.ts';
import type { ClientSink } from '../client-sink.ts';
import type { DiscoveryWaits } from '../discovery-waits.ts';
import type { McpExchange, McpFilter, McpMethodFilter, McpOutcome } from '../exchange.ts';
import { type ListChangeNotifier, SessionListChanges } from '../list-changes.ts';
import { NO_EVENT_STREAMS, type OpenStreams } from '../open-streams.ts';
import { declarationsTo, discoverResult, initializeResult, negotiate } from '../server-info.ts';
import type { EventStore, Resumption } from '../sessions/event-store.ts';
import { SessionStateError } from '../sessions/session-state.ts';
import type { ClientSession, ClientSessions } from '../sessions/sessions.ts';

/** Dependencies of {@link serviceMcpInit}. */
export interface McpInitParts {
  readonly registry: Registry;
  readonly sessions: ClientSessions;
  readonly profiles: ClientProfiles;
  readonly discoveryWaits: Pick<DiscoveryWaits, 'beforeAnswer'>;
  readonly calls: Pick<InFlightCalls, 'ofRequest'>;
  readonly events: EventStore;
  readonly listChanges: ListChangeNotifier;
  readonly openStreams: OpenStreams;
  readonly sessionBindings: SessionBindings;
  readonly sessionTasks: Pick<SessionTasks, 'onListening'>;
  readonly createdTasks: Pick<CreatedTasks, 'interruptedCall'>;
  readonly upstreamHeaders: UpstreamHeaders;
}

/**
 * Prefix of all forwarded notifications. A request without an id would bypass every evaluator, and an upstream that
 * ignores the missing id would execute it.
 */
const NOTIFICATIONS = 'notifications/';

const ACCEPTED: McpOutcome = { kind: 'plain', status: 202 };
const ALLOWED = ['Allow', 'GET, POST, DELETE, OPTIONS'];

/** Notifications that are not forwarded: upstreams have sessions of their own, and all others may only be sent by servers. */
const NOT_FORWARDED: ReadonlySet<string> = new Set([
  'notifications/initialized',
  'notifications/message',
  'notifications/tools/list_changed',
  'notifications/resources/list_changed',
  'notifications/resources/updated',
  'notifications/prompts/list_changed',
  'notifications/elicitation/complete',
  'notifications/subscriptions/acknowledged',
]);

/**
 * The client's response to a server request: accepted once the upstream has it. A response to no pending request is
 * not an error.
 */
async function handleResponse(session: ClientSession | undefined, message: ResponseMessage): Promise<McpOutcome> {
  try {
    await session?.active?.deliverResponse(message);
    return ACCEPTED;
  } catch (error) {
    const reason = error instanceof UpstreamError ? error.message : 'internal error';
    const response = `the response could not be forwarded: ${reason}`;
    return { kind: 'error', error: { code: INTERNAL_ERROR, message: response }, status: 502, idText: 'null' };
  }
}

/** Notifications have no response. Those of a client without a session are ignored. */
function handleNotification(
  { session, headers }: McpExchange,
  message: NotificationMessage,
  parts: McpInitParts,
): McpOutcome {
  if (!session) return ACCEPTED;
  const { calls, sessionBindings, upstreamHeaders } = parts;
  switch (message.method) {
    case 'notifications/cancelled': {
      const requestId = paramText(message.text, 'requestId');
      if (requestId !== undefined) calls.ofRequest(session.id, requestId)?.cancel(message);
      break;
    }
    case 'notifications/progress': {
      const token = paramText(message.text, 'progressToken');
      if (token !== undefined) session.active?.serverRequest(token)?.onProgress(message.text);
      break;
    }
    default: {
      if (NOT_FORWARDED.has(message.method) || !message.method.startsWith(NOTIFICATIONS)) break;
      const own = upstreamHeaders(headers);
      if (own) sessionBindings.forwardNotification(session, own, message.text);
    }
  }
  return ACCEPTED;
}

/**
 * GET of a legacy session: its notification stream or, with `Last-Event-ID`, the rest of an interrupted stream (2025-11-25,
 * "Listening for Messages from the Server"). If the stream is no longer stored, the response is an error.
 */
function notificationStream(
  exchange: McpExchange,
  session: ClientSession,
  parts: McpInitParts,
): McpOutcome | Promise<McpOutcome> {
  const { accept, [HEADER_LAST_EVENT_ID]: lastEventId } = exchange.headers;
  if (!acceptsEventStream(accept)) return NO_EVENT_STREAMS;
  const headers = parts.upstreamHeaders(exchange.headers);
  // A GET cannot have a JSON-RPC response.
  if (!headers) return rpcError(INVALID_REQUEST, 'forwarding loop', 508);
  if (typeof lastEventId !== 'string') return open(headers, session, parts, false);
  const resumption = parts.events.find(session.id, lastEventId);
  switch (resumption.kind) {
    case 'foreign':
      return rpcError(INVALID_REQUEST, 'header Last-Event-ID does not identify an event of this session', 400);
    case 'stream':
      return { kind: 'deferred', start: (client) => resume(client, resumption) };
    case 'complete':
      // An empty stream would be one more to resume, endlessly.
      return { kind: 'plain', status: 405, headers: ALLOWED };
    case 'lost':
      if (resumption.idText !== undefined) {
        return takeUp(resumption.idText, resumption.restarted, lastEventId, headers, session, parts);
      }
      // Displaced by newer streams, which have carried everything since: another one would displace those in turn.
      if (session.active?.isConnected) {
        return rpcError(INVALID_REQUEST, 'a newer notification stream of this session is open', 409);
      }
      return open(headers, session, parts, true);
  }
}

/** A new notification stream. `hasMissedMessages`: the client had one before whose pending messages are lost. */
function open(
  headers: readonly string[],
  session: ClientSession,
  { listChanges, openStreams, sessionBindings, sessionTasks }: McpInitParts,
  hasMissedMessages: boolean,
): McpOutcome {
  const start = ({ writer }: ClientSink): void => {
    const channel = session.channel();
    // Stored messages for a stream that is not resumed are never delivered.
    const gap = channel.takeUnread() || hasMissedMessages;
    const first = !channel.isListening;
    let remove = (): void => undefined;
    const stream = channel.openStream(() => remove());
    remove = openStreams.add({ end: () => channel.closeStream(stream) });
    if (first) new SessionListChanges(channel, listChanges, session.namespace);
    writer.attachStream(stream);
    // Flushes the response head in either case.
    if (session.protocolVersion >= POLLING_VERSION) stream.prime();
    else stream.keepAlive();
    if (gap) for (const method of LIST_CHANGED_METHODS) stream.send(`{"jsonrpc":"2.0","method":"${method}"}`);
    sessionBindings.onListening({ session, headers }, gap);
    sessionTasks.onListening(session, headers);
  };
  return { kind: 'deferred', start };
}

function resume({ writer }: ClientSink, { stream, after }: Extract<Resumption, { kind: 'stream' }>): void {
  writer.attachStream(stream, after);
  // Flushes the response head when there is nothing to resend.
  stream.keepAlive();
}

/** The rest of the stream of a call: one that waits for a task goes on in this process, of others the outcome is unknown. */
async function takeUp(
  idText: string,
  restarted: boolean,
  lastEventId: string,
  headers: readonly string[],
  session: ClientSession,
  { events, createdTasks }: McpInitParts,
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
      client.writer.attachStream(stream);
      if (!resumeTask) return stream.end(unknownOutcome(idText, restarted));
      stream.prime();
      resumeTask(client);
    },
  };
}

function unknownOutcome(idText: string, restarted: boolean): string {
  const message = restarted ? 'outcome unknown after restart' : 'the response is no longer stored';
  return `{"jsonrpc":"2.0","id":${idText},"error":{"code":${INTERNAL_ERROR},"message":"${message}"}}`;
}

/**
 * Manages the MCP lifecycle: `initialize`, `server/discover`, `ping`, `logging/setLevel`, client notifications and
 * responses to server requests, GET and DELETE of a legacy session.
 */
export function serviceMcpInit(parts: McpInitParts): McpMethodFilter {
  const { registry, profiles, discoveryWaits } = parts;
  const filter: McpFilter = (exchange) => {
    const { message, namespace } = exchange;
    if (!namespace) return undefined;
    if (!message) return withoutMessage(exchange, parts);
    if (message.kind === 'response') return handleResponse(exchange.session, message);
    if (message.kind === 'notification') return handleNotification(exchange, message, parts);

    if (exchange.era === 'modern') {
      if (message.method !== 'server/discover') return undefined;
      const profile = profiles.of('modern', exchange.capabilities);
      const respond = (current: NamespaceState): McpOutcome => {
        const serverInfo = profiles.identities.of(current.name);
        return { kind: 'result', json: discoverResult(registry.current, current, serverInfo, profile) };
      };
      const waiting = discoveryWaits.beforeAnswer(exchange, namespace);
      if (!waiting) return respond(namespace);
      return waiting.then((waited) => ('ended' in waited ? waited.ended : respond(waited.namespace ?? namespace)));
    }
    if (message.method === 'initialize') return initialize(exchange, message, namespace, parts);
    if (message.method === 'ping') return EMPTY_RESULT;
    return message.method === 'logging/setLevel' ? setLevel(exchange, message, namespace, parts) : undefined;
  };
  return { methods: ['initialize', 'server/discover', 'ping', 'logging/setLevel', undefined], filter };
}

const EMPTY_RESULT: McpOutcome = { kind: 'result', json: '{}', bytes: 2 };

/**
 * Minimum log level of the session: stored, and sent to the upstreams that it has sessions with. Without an upstream that logs,
 * the method does not exist, as the capabilities of the namespace say.
 */
async function setLevel(
  { session, era, capabilities }: McpExchange,
  { params: { level } }: RequestMessage,
  namespace: NamespaceState,
  { registry, profiles, sessionBindings }: McpInitParts,
): Promise<McpOutcome | undefined> {
  const profile = session?.profile ?? profiles.of(era, capabilities);
  const declarations = declarationsTo(profile, registry.current, namespace);
  if (!declarations.some((one) => one.capabilities.has('logging'))) return undefined;
  if (!isLogLevel(level)) return rpcError(INVALID_PARAMS, 'parameter "level" must be the name of a log level');
  if (!session) return EMPTY_RESULT;
  try {
    await session.change((before) => ({ ...before, logLevel: level }));
  } catch (error) {
    if (error instanceof SessionStateError) return rpcError(INVALID_REQUEST, error.message);
    throw error;
  }
  await sessionBindings.updateLogLevel(session);
  return EMPTY_RESULT;
}

async function initialize(
  exchange: McpExchange,
  message: RequestMessage,
  namespace: NamespaceState,
  { registry, sessions, profiles, discoveryWaits }: McpInitParts,
): Promise<McpOutcome> {
  const { protocolVersion, capabilities = {}, clientInfo = {} } = message.params;
  if (typeof protocolVersion !== 'string')
    return rpcError(INVALID_PARAMS, 'missing required parameter: protocolVersion');
  if (!isJsonObject(capabilities)) return rpcError(INVALID_PARAMS, 'parameter "capabilities" must be an object');
  if (!isJsonObject(clientInfo)) return rpcError(INVALID_PARAMS, 'parameter "clientInfo" must be an object');
  const version = negotiate(protocolVersion);
  const token = sessions.create({
    namespace: namespace.name,
    protocolVersion: version,
    clientInfo: boundedClientInfo(clientInfo),
    capabilities,
    principal: exchange.principal,
    address: exchange.head.address,
  });
  if (token === undefined) return rpcError(INVALID_PARAMS, 'parameter "capabilities" is too large for a session');
  const profile = profiles.of('legacy', capabilities);
  const waited = await discoveryWaits.beforeAnswer(exchange, namespace, profile);
  if (waited && 'ended' in waited) return waited.ended;
  return {
    kind: 'result',
    json: initializeResult(registry.current, namespace, version, profiles.identities.of(namespace.name), profile),
    headers: ['Mcp-Session-Id', token],
  };
}

/** GET opens a legacy session's notification stream, DELETE ends the session. Other methods are 405. */
function withoutMessage(exchange: McpExchange, parts: McpInitParts): McpOutcome | Promise<McpOutcome> {
  const { head, session } = exchange;
  const { method } = head;
  if (method === 'GET' && session) return notificationStream(exchange, session, parts);
  if (method === 'DELETE' && session) return endSession(session);
  return { kind: 'plain', status: 405, headers: ALLOWED };
}

async function endSession(session: ClientSession): Promise<McpOutcome> {
  await session.change('end');
  return { kind: 'plain', status: 204 };
}
