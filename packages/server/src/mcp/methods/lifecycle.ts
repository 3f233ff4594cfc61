import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { isLogLevel } from '@sluice/protocol/mcp/capabilities';
import { INVALID_PARAMS, INVALID_REQUEST } from '@sluice/protocol/mcp/constants';
import { truncateBytes } from '@sluice/protocol/text';
import { rpcError } from '../../http/outcome.ts';
import type { Registry } from '../../registry/registry.ts';
import type { NamespaceState } from '../../registry/snapshot.ts';
import type { SessionBindings } from '../../upstreams/mcp/sessions/session-bindings.ts';
import type { ClientProfiles } from '../client-profile.ts';
import type { DiscoveryWaits } from '../discovery-waits.ts';
import type { McpFilter, McpOutcome, McpRequest } from '../exchange.ts';
import { declarationsFor, discoverResult, initializeResult, negotiate } from '../server-info.ts';
import { SessionStateError } from '../sessions/session-state.ts';
import type { ClientSessions } from '../sessions/sessions.ts';

/** Dependencies of the methods with which clients begin. */
interface LifecycleParts {
  readonly registry: Registry;
  readonly sessions: ClientSessions;
  readonly profiles: ClientProfiles;
  readonly discoveryWaits: Pick<DiscoveryWaits, 'beforeAnswer'>;
  readonly sessionBindings: SessionBindings;
}

/** Result of `ping` and `logging/setLevel`. */
export const EMPTY_RESULT: McpOutcome = { kind: 'result', json: '{}', bytes: 2 };

/** `initialize`: creates the session of a legacy client. */
export async function initialize(
  request: McpRequest,
  { registry, sessions, profiles, discoveryWaits }: LifecycleParts,
): Promise<McpOutcome> {
  const { message, namespace, principal, head } = request;
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
    principal,
    address: head.address,
  });
  if (token === undefined) return rpcError(INVALID_PARAMS, 'parameter "capabilities" is too large for a session');
  const profile = profiles.of('legacy', capabilities);
  const waited = await discoveryWaits.beforeAnswer(request, namespace, profile);
  if (waited && 'ended' in waited) return waited.ended;
  return {
    kind: 'result',
    json: initializeResult(registry.current, namespace, version, profiles.identities.of(namespace.name), profile),
    headers: ['Mcp-Session-Id', token],
  };
}

/** `server/discover` of a modern client. */
export function discover(
  request: McpRequest,
  { registry, profiles, discoveryWaits }: LifecycleParts,
): ReturnType<McpFilter> {
  const { namespace, capabilities } = request;
  const profile = profiles.of('modern', capabilities);
  const respond = (current: NamespaceState): McpOutcome => {
    const serverInfo = profiles.identities.of(current.name);
    return { kind: 'result', json: discoverResult(registry.current, current, serverInfo, profile) };
  };
  const waiting = discoveryWaits.beforeAnswer(request, namespace);
  if (!waiting) return respond(namespace);
  return waiting.then((waited) => ('ended' in waited ? waited.ended : respond(waited.namespace ?? namespace)));
}

/**
 * `logging/setLevel`: the minimum log level of the session is stored, and sent to the upstreams that it has sessions with.
 * Without an upstream that logs, the method does not exist, as the capabilities of the namespace say.
 */
export async function setLogLevel(request: McpRequest, parts: LifecycleParts): Promise<McpOutcome | undefined> {
  const { session, message } = request;
  const { level } = message.params;
  if (!declarationsFor(request, parts).some(({ capabilities }) => capabilities.has('logging'))) return undefined;
  if (!isLogLevel(level)) return rpcError(INVALID_PARAMS, 'parameter "level" must be the name of a log level');
  if (!session) return EMPTY_RESULT;
  try {
    await session.change((before) => ({ ...before, logLevel: level }));
  } catch (error) {
    if (error instanceof SessionStateError) return rpcError(INVALID_REQUEST, error.message);
    throw error;
  }
  await parts.sessionBindings.updateLogLevel(session);
  return EMPTY_RESULT;
}

/** Longest members, in bytes of UTF-8. */
const MAX_BYTES = { name: 256, version: 128, title: 256 } as const;

/** Control characters take six bytes each in JSON. */
const CONTROL_CHARACTERS = /\p{Cc}/gu;

/**
 * The part of a client's `clientInfo` that upstreams get in requests on its behalf, with the members that they require. The
 * rest may be of any size, such as icons as data URLs, and a session is stored in its id.
 */
export function boundedClientInfo(info: JsonValue | undefined): JsonObject {
  const { name, version, title }: JsonObject = isJsonObject(info) ? info : {};
  return {
    name: shortened(name, MAX_BYTES.name) ?? 'unknown',
    version: shortened(version, MAX_BYTES.version) ?? 'unknown',
    ...(typeof title === 'string' && { title: shortened(title, MAX_BYTES.title) ?? '' }),
  };
}

/** Undefined for other values than texts. */
function shortened(value: JsonValue | undefined, maxBytes: number): string | undefined {
  if (typeof value !== 'string') return undefined;
  return truncateBytes(value.slice(0, maxBytes).replace(CONTROL_CHARACTERS, ' '), maxBytes);
}
