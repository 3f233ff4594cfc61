import { isJsonObject } from '@sluice/protocol/json/parse';
import { isLogLevel } from '@sluice/protocol/mcp/capabilities';
import { INVALID_PARAMS, INVALID_REQUEST, META_CLIENT_CAPABILITIES } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { type Outcome, rpcError } from '../../answer/outcome.ts';
import type { Forwards } from '../../forwards/forwards.ts';
import type { SessionLinks } from '../../forwards/session-links.ts';
import type { ClientProfiles } from '../../mcp/client-profile.ts';
import { discoverResult, type Implementation, initializeResult, negotiate } from '../../mcp/identity.ts';
import type { Registry } from '../../registry/registry.ts';
import type { NamespaceState } from '../../registry/snapshot.ts';
import { SessionStateError } from '../../sessions/kept/kept.ts';
import type { ClientSession, ClientSessions } from '../../sessions/sessions.ts';
import type { Filter } from '../chain.ts';
import type { RequestContext } from '../context.ts';
import { answered, type ClientMessageParts, notified } from './client-messages.ts';
import { type NotificationStreamParts, notificationStream } from './notification-stream.ts';

/** What the filter works with. */
export interface McpInitParts extends NotificationStreamParts, ClientMessageParts {
  readonly registry: Registry;
  readonly sessions: ClientSessions;
  readonly profiles: ClientProfiles;
  readonly forwards: Pick<Forwards, 'admit' | 'endSession' | 'legacySeen'>;
  readonly sessionLinks: SessionLinks;
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
