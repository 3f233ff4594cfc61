import { isJsonObject } from '@sluice/protocol/json/parse';
import { isLogLevel } from '@sluice/protocol/mcp/capabilities';
import {
  HEADER_LAST_EVENT_ID,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  INVALID_REQUEST,
  LIST_CHANGED_METHODS,
  META_CLIENT_CAPABILITIES,
  POLLING_VERSION,
} from '@sluice/protocol/mcp/constants';
import {
  type NotificationMessage,
  paramText,
  type RequestMessage,
  type ResponseMessage,
} from '@sluice/protocol/mcp/message';
import type { Filter } from '../../http/chain.ts';
import { UpstreamError } from '../../http/client/errors.ts';
import { type Outcome, type RequestContext, rpcError } from '../../http/context.ts';
import type { Registry } from '../../registry/registry.ts';
import type { NamespaceState } from '../../registry/snapshot.ts';
import type { Forwards } from '../../upstreams/mcp/forwards.ts';
import type { InFlightCall, InFlightCalls } from '../../upstreams/mcp/relay/in-flight.ts';
import type { CallRouter } from '../../upstreams/mcp/relay/relay.ts';
import type { SessionBindings } from '../../upstreams/mcp/sessions/session-bindings.ts';
import type { ClientProfiles } from '../client-profile.ts';
import { type ListChangeNotifier, SessionNotices } from '../list-changes.ts';
import type { OpenStreams } from '../long-streams.ts';
import type { ResponseWriter } from '../response.ts';
import { discoverResult, type Implementation, initializeResult, negotiate } from '../server-info.ts';
import type { ActiveSessions } from '../sessions/live-sessions.ts';
import type { EventStore, Resumption } from '../sessions/resumable-streams.ts';
import { SessionStateError } from '../sessions/session-state.ts';
import type { ClientSession, ClientSessions } from '../sessions/sessions.ts';

/** What a legacy client's messages that are no requests go to. */
export interface ClientMessageParts {
  readonly lives: ActiveSessions;
  readonly calls: Pick<InFlightCalls<InFlightCall>, 'find'>;
  readonly sessionLinks: SessionBindings;
  readonly relay: Pick<CallRouter, 'upstreamHeaders'>;
}

/**
 * What all of them are called that are passed on. A request without an id would get by everything that judges requests,
 * and an upstream that does not miss the id would carry it out.
 */
const NOTIFICATIONS = 'notifications/';

const ACCEPTED: Outcome = { kind: 'plain', status: 202 };

/** Notifications that only servers send: an upstream would hear from a client what it alone can know. */
const SERVERS_ONLY: ReadonlySet<string> = new Set([
  'notifications/message',
  'notifications/tools/list_changed',
  'notifications/resources/list_changed',
  'notifications/resources/updated',
  'notifications/prompts/list_changed',
  'notifications/elicitation/complete',
  'notifications/subscriptions/acknowledged',
]);

/** The client's answer to a question: taken when the upstream that asked has it. One that nobody waits for is no error. */
export async function answered(
  session: ClientSession | undefined,
  message: ResponseMessage,
  { lives }: ClientMessageParts,
): Promise<Outcome> {
  try {
    await (session && lives.find(session.id)?.answer(message));
    return ACCEPTED;
  } catch (error) {
    const reason = error instanceof UpstreamError ? error.message : 'internal error';
    const answer = `the answer could not be passed on: ${reason}`;
    return { kind: 'error', error: { code: INTERNAL_ERROR, message: answer }, status: 502, idText: 'null' };
  }
}

/** Notifications are never answered. What a client without a session says means nothing to anybody. */
export function notified(
  { session, headers }: RequestContext,
  message: NotificationMessage,
  parts: ClientMessageParts,
): Outcome {
  if (!session) return ACCEPTED;
  const { lives, calls, sessionLinks, relay } = parts;
  switch (message.method) {
    case 'notifications/initialized':
      break;
    case 'notifications/cancelled': {
      const requestId = paramText(message.text, 'requestId');
      if (requestId !== undefined) calls.find((call) => call.isFor(session.id, requestId))?.cancel(message);
      break;
    }
    case 'notifications/progress': {
      const token = paramText(message.text, 'progressToken');
      if (token !== undefined) lives.find(session.id)?.question(token)?.progressed(message.text);
      break;
    }
    default: {
      if (SERVERS_ONLY.has(message.method) || !message.method.startsWith(NOTIFICATIONS)) break;
      const own = relay.upstreamHeaders(headers);
      if (own) sessionLinks.notify(session, own, message.text);
    }
  }
  return ACCEPTED;
}

/** What notification streams are made of. */
export interface NotificationStreamParts {
  readonly lives: ActiveSessions;
  readonly events: EventStore;
  readonly notices: ListChangeNotifier;
  readonly longStreams: OpenStreams;
  readonly sessionLinks: SessionBindings;
  readonly relay: Pick<CallRouter, 'upstreamHeaders'>;
}

/**
 * GET of a legacy session: its notification stream or, with `Last-Event-ID`, the rest of a stream that broke off
 * (2025-11-25, "Listening for Messages from the Server"; mcp 3). What this process does not have any more is said so.
 */
export function notificationStream(
  context: RequestContext,
  session: ClientSession,
  parts: NotificationStreamParts,
): Outcome {
  const { accept, [HEADER_LAST_EVENT_ID]: lastEventId } = context.headers;
  if (accept !== undefined && !/text\/event-stream|\*\/\*/.test(accept)) {
    return rpcError(INVALID_REQUEST, 'header Accept must name text/event-stream', 406);
  }
  const headers = parts.relay.upstreamHeaders(context.headers);
  // No JSON-RPC answer can be given to a GET.
  if (!headers) return rpcError(INVALID_REQUEST, 'forwarding loop', 508);
  if (typeof lastEventId !== 'string') return open(headers, session, parts, false);
  const resumption = parts.events.find(session.id, lastEventId);
  switch (resumption.kind) {
    case 'foreign':
      return rpcError(INVALID_REQUEST, 'header Last-Event-ID names no event of this session', 400);
    case 'stream':
      return { kind: 'stream', start: (client) => resume(client, resumption) };
    case 'lost':
      return resumption.idText === undefined
        ? open(headers, session, parts, true)
        : unknownOutcome(resumption.idText, resumption.restarted);
  }
}

/** A new notification stream. `lost`: the client had one before, and what was to come on it is lost. */
function open(
  headers: readonly string[],
  session: ClientSession,
  { lives, notices, longStreams, sessionLinks }: NotificationStreamParts,
  lost: boolean,
): Outcome {
  const start = (client: ResponseWriter): void => {
    const live = lives.of(session.id);
    // Who does not take up a stream again never gets what was sent to it meanwhile.
    const gap = lost || live.unread;
    const first = !live.listening;
    let remove = (): void => undefined;
    const stream = live.openStream(() => remove());
    remove = longStreams.add({ keepAlive: () => stream.keepAlive(), end: () => live.closeStream(stream) });
    if (first) new SessionNotices(live, notices, session.namespace);
    client.continueStream(stream);
    // Sends the head on its way, whichever it is.
    if (session.protocolVersion >= POLLING_VERSION) stream.prime();
    else stream.keepAlive();
    if (gap) for (const method of LIST_CHANGED_METHODS) stream.send(`{"jsonrpc":"2.0","method":"${method}"}`);
    sessionLinks.hold(session, headers, gap);
  };
  return { kind: 'stream', start };
}

/** Goes on with a stream that is still here. */
function resume(client: ResponseWriter, { stream, after }: Extract<Resumption, { kind: 'stream' }>): void {
  client.continueStream(stream, after);
  // Sends the head on its way where there is nothing to send again.
  stream.keepAlive();
}

function unknownOutcome(idText: string, restarted: boolean): Outcome {
  const message = restarted ? 'outcome unknown after restart' : 'the answer is not kept any more';
  const error = `{"code":${INTERNAL_ERROR},"message":"${message}"}`;
  const start = (client: ResponseWriter): void => {
    client.beginStream();
    client.lastEvent(`{"jsonrpc":"2.0","id":${idText},"error":${error}}`);
  };
  return { kind: 'stream', start };
}

/** What the filter works with. */
export interface McpInitParts extends NotificationStreamParts, ClientMessageParts {
  readonly registry: Registry;
  readonly sessions: ClientSessions;
  readonly profiles: ClientProfiles;
  readonly forwards: Pick<Forwards, 'admit' | 'endSession' | 'legacySeen'>;
  readonly sessionLinks: SessionBindings;
  readonly serverInfo: Implementation;
}

/**
 * Opens and closes conversations, and keeps them going: `initialize`, `server/discover`, `ping`, `logging/setLevel`, the
 * client's notifications and its answers to upstreams, GET and DELETE of a legacy session. Every later filter finds the
 * client's capabilities set.
 */
export function serviceMcpInit(parts: McpInitParts): Filter {
  const { registry, profiles, serverInfo, forwards } = parts;
  return (context) => {
    const { message, namespace } = context;
    if (!namespace) return undefined;
    if (!message) return withoutMessage(context, parts);
    if (message.kind === 'response') return answered(context.session, message, parts);
    if (message.kind === 'notification') return notified(context, message, parts);

    if (context.era === 'modern') {
      context.capabilities = modernCapabilities(message);
      if (message.method !== 'server/discover') return undefined;
      const profile = profiles.of('modern', context.capabilities);
      return { kind: 'result', json: discoverResult(registry.current, namespace, serverInfo, profile) };
    }
    forwards.legacySeen();
    if (message.method === 'initialize') return initialize(context, message, namespace, parts);
    if (context.session) context.capabilities = context.session.profile.capabilities;
    if (message.method === 'ping') return EMPTY_RESULT;
    return message.method === 'logging/setLevel' ? setLevel(context.session, message, parts) : undefined;
  };
}

const EMPTY_RESULT: Outcome = { kind: 'result', json: '{}', bytes: 2 };

/** The least level of log messages that the session wants, kept and told to the upstreams it has sessions with. */
async function setLevel(
  session: ClientSession | undefined,
  { params: { level } }: RequestMessage,
  { sessions, sessionLinks }: McpInitParts,
): Promise<Outcome> {
  if (!isLogLevel(level)) return rpcError(INVALID_PARAMS, 'parameter "level" must be the name of a log level');
  if (!session) return EMPTY_RESULT;
  try {
    await sessions.change(session, (before) => ({ ...before, logLevel: level }));
  } catch (error) {
    if (error instanceof SessionStateError) return rpcError(INVALID_REQUEST, error.message);
    throw error;
  }
  await sessionLinks.setLevel(session);
  return EMPTY_RESULT;
}

async function initialize(
  context: RequestContext,
  message: RequestMessage,
  namespace: NamespaceState,
  { registry, sessions, profiles, forwards, serverInfo }: McpInitParts,
): Promise<Outcome> {
  const { protocolVersion, capabilities = {}, clientInfo = {} } = message.params;
  if (typeof protocolVersion !== 'string')
    return rpcError(INVALID_PARAMS, 'missing required parameter: protocolVersion');
  if (!isJsonObject(capabilities)) return rpcError(INVALID_PARAMS, 'parameter "capabilities" must be an object');
  if (!isJsonObject(clientInfo)) return rpcError(INVALID_PARAMS, 'parameter "clientInfo" must be an object');
  const version = negotiate(protocolVersion);
  const opening = { namespace: namespace.name, protocolVersion: version, clientInfo, capabilities, user: context.user };
  const token = sessions.create(opening);
  if (token === undefined) {
    return rpcError(INVALID_PARAMS, 'parameters "clientInfo" and "capabilities" are too large for a session');
  }
  const profile = profiles.of('legacy', capabilities);
  await forwards.admit(profile);
  return {
    kind: 'result',
    json: initializeResult(registry.current, namespace, version, serverInfo, profile),
    headers: ['Mcp-Session-Id', token],
  };
}

function modernCapabilities(message: RequestMessage) {
  const meta = message.params._meta;
  const capabilities = isJsonObject(meta) ? meta[META_CLIENT_CAPABILITIES] : undefined;
  return isJsonObject(capabilities) ? capabilities : {};
}

/** GET opens a legacy session's notification stream, DELETE ends the session. All else is 405 (mcp 6). */
function withoutMessage(context: RequestContext, parts: McpInitParts): Outcome | Promise<Outcome> {
  const { method, session } = context;
  if (method === 'GET' && session) return notificationStream(context, session, parts);
  if (method === 'DELETE' && session) return endSession(session, parts);
  return { kind: 'plain', status: 405, headers: ['Allow', 'GET, POST, DELETE, OPTIONS'] };
}

async function endSession(
  session: ClientSession,
  { sessions, forwards, lives, events }: McpInitParts,
): Promise<Outcome> {
  await sessions.end(session);
  lives.find(session.id)?.end();
  events.dropSession(session.id);
  forwards.endSession(session.id);
  return { kind: 'plain', status: 204 };
}
