import { type Outcome, rpcError } from '../../answer/outcome.ts';
import type { Forwards } from '../../forwards/forwards.ts';
import { isJsonObject } from '../../json/lossless.ts';
import type { ClientProfiles } from '../../mcp/client-profile.ts';
import { discoverResult, type Implementation, initializeResult, negotiate } from '../../mcp/identity.ts';
import type { RequestMessage } from '../../mcp/message.ts';
import { INVALID_PARAMS, META_CLIENT_CAPABILITIES } from '../../mcp/protocol.ts';
import type { Registry } from '../../registry/registry.ts';
import type { NamespaceState } from '../../registry/snapshot.ts';
import type { ClientSession, ClientSessions } from '../../sessions/sessions.ts';
import type { Filter } from '../chain.ts';
import type { RequestContext } from '../context.ts';

/** What the filter works with. */
export interface McpInitParts {
  readonly registry: Registry;
  readonly sessions: ClientSessions;
  readonly profiles: ClientProfiles;
  readonly forwards: Pick<Forwards, 'admit' | 'endSession'>;
  readonly serverInfo: Implementation;
}

/**
 * Opens and closes conversations: `initialize`, `server/discover`, `ping`, life-cycle notifications, and DELETE of a
 * legacy session. Every later filter finds the client's capabilities set.
 */
export function serviceMcpInit(parts: McpInitParts): Filter {
  const { registry, serverInfo } = parts;
  return (context) => {
    const { message, namespace } = context;
    if (!namespace) return undefined;
    if (!message) return withoutMessage(context, parts);
    // Notifications and answers of clients need none of ours.
    if (message.kind !== 'request') return { kind: 'plain', status: 202 };

    if (context.era === 'modern') {
      context.capabilities = modernCapabilities(message);
      if (message.method !== 'server/discover') return undefined;
      return { kind: 'result', json: discoverResult(registry.current, namespace, serverInfo) };
    }
    if (message.method === 'initialize') return initialize(context, message, namespace, parts);
    if (context.session) context.capabilities = context.session.profile.capabilities;
    return message.method === 'ping' ? { kind: 'result', json: '{}', bytes: 2 } : undefined;
  };
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
  await forwards.admit(profiles.of('legacy', capabilities));
  return {
    kind: 'result',
    json: initializeResult(registry.current, namespace, version, serverInfo),
    headers: ['Mcp-Session-Id', token],
  };
}

function modernCapabilities(message: RequestMessage) {
  const meta = message.params._meta;
  const capabilities = isJsonObject(meta) ? meta[META_CLIENT_CAPABILITIES] : undefined;
  return isJsonObject(capabilities) ? capabilities : {};
}

/**
 * DELETE ends a legacy session. Everything else is 405 (mcp 6): GET too, since the notification stream is not offered
 * and this tells a client to go on without it.
 */
function withoutMessage({ method, session }: RequestContext, parts: McpInitParts): Outcome | Promise<Outcome> {
  if (method === 'DELETE' && session) return endSession(session, parts);
  return { kind: 'plain', status: 405, headers: ['Allow', 'POST, DELETE, OPTIONS'] };
}

async function endSession(session: ClientSession, { sessions, forwards }: McpInitParts): Promise<Outcome> {
  await sessions.end(session);
  forwards.endSession(session.id);
  return { kind: 'plain', status: 204 };
}
