import {
  BATCH_VERSION,
  HEADER_PROTOCOL_VERSION,
  INVALID_PARAMS,
  INVALID_REQUEST,
  MODERN_VERSIONS,
} from '@sluice/protocol/mcp/constants';
import { checkModernHeaders, eraOf } from '@sluice/protocol/mcp/era';
import { type MessageLimits, parseMessage } from '@sluice/protocol/mcp/message';
import { z } from 'zod';
import { appToolCall } from '../../access/app-tools.ts';
import { conditions } from '../../http/chain.ts';
import { notFound, rpcError } from '../../http/outcome.ts';
import { namespaceSegment } from '../../http/public-url.ts';
import { byteLimit } from '../../http/settings.ts';
import type { Registry } from '../../registry/registry.ts';
import type { Forwards } from '../../upstreams/forwards.ts';
import type { McpExchange, McpFilter, McpOutcome } from '../exchange.ts';
import type { ClientSessions } from '../sessions/sessions.ts';

/** Settings of the `mcp` filter. */
export const mcpSettings = z.strictObject({
  filter: z.literal('mcp'),
  conditions,
  on_invalid: z.enum(['continue', 'reject']).default('continue'),
  max_body_bytes: byteLimit.optional(),
});

/** The settings after defaults of the pipeline file were applied. */
export type McpSettings = Pick<z.output<typeof mcpSettings>, 'on_invalid'> & { readonly max_body_bytes: number };

/** Message for a request body beyond a limit in bytes; names the setting that changes it. */
export function bodyTooLarge(limit: number): string {
  return `request body too large: the limit is ${limit} bytes (body_limits.max_request_bytes of the pipeline file, or max_body_bytes of its filter mcp)`;
}

/**
 * Parses the JSON-RPC message and determines its era. Malformed messages, and those whose headers contradict the body, are
 * rejected here. Requests without a message pass, since their meaning depends on the path, which is checked later. A batch passes
 * too: its messages run through the chain one by one. With `on_invalid: reject` all malformed messages get HTTP 400, else the
 * protocol's own statuses. `passes` are paths that do not serve MCP.
 */
export function mcp(
  { on_invalid, max_body_bytes }: McpSettings,
  limits: MessageLimits,
  passes?: (path: string) => boolean,
): McpFilter {
  return (exchange) => {
    if (exchange.head.method !== 'POST' || exchange.isUnread) return setEraFromHeader(exchange);
    // The listener enforces the largest limit of its chain's filters.
    if (exchange.body.length > max_body_bytes) {
      return rpcError(INVALID_REQUEST, bodyTooLarge(max_body_bytes), 413);
    }
    if (passes?.(exchange.path)) return undefined;
    const outcome = parsePost(exchange, limits);
    if (on_invalid === 'reject' && outcome?.kind === 'error') return { ...outcome, status: 400 };
    return outcome;
  };
}

function parsePost(exchange: McpExchange, limits: MessageLimits): McpOutcome | undefined {
  const message = parseMessage(exchange.body, limits);
  if (message.kind === 'malformed') {
    const { code, message: reason, idText } = message;
    setEraFromHeader(exchange);
    // A message that exceeds a limit is a valid one, whose errors have HTTP status 200 in the legacy era.
    const status = code === INVALID_PARAMS && exchange.era === 'legacy' ? 200 : 400;
    return { kind: 'error', error: { code, message: reason }, status, idText };
  }
  if (message.kind === 'batch') {
    if (exchange.head.inBatch) return rpcError(INVALID_REQUEST, 'invalid request: a batch in a batch', 400);
    exchange.batch = message;
    return setEraFromHeader(exchange);
  }
  exchange.message = message;
  if (message.kind === 'response') return undefined;
  const era = eraOf(message, exchange.headers);
  if (era.kind === 'rejected') return rpcError(era.code, era.message, 400, era.data);
  exchange.era = era.era;
  if (era.era === 'legacy') return undefined;
  if (era.capabilities) exchange.capabilities = era.capabilities;
  const mismatch = checkModernHeaders(message, exchange.headers);
  return mismatch && rpcError(mismatch.code, mismatch.message, 400);
}

/** A request without a message has only the version header to determine its era. */
function setEraFromHeader(exchange: McpExchange): undefined {
  const version = exchange.headers[HEADER_PROTOCOL_VERSION];
  if (typeof version === 'string' && MODERN_VERSIONS.includes(version)) exchange.era = 'modern';
}

/** Returns the name of the namespace whose MCP endpoint this path is; undefined for other paths. */
export function namespaceAt(registry: Pick<Registry, 'current'>, path: string): string | undefined {
  const segment = namespaceSegment(path);
  return segment === undefined ? undefined : registry.current.namespace(segment)?.name;
}

/**
 * Creates the function that returns whether {@link serviceNamespace} needs the body of a request to a path: not if the path names
 * an unknown namespace.
 */
export function namespaceCheck(registry: Pick<Registry, 'current'>): (path: string) => boolean {
  return (path) => {
    const segment = namespaceSegment(path);
    return segment === undefined || registry.current.namespace(segment) !== undefined;
  };
}

/** Dependencies of {@link serviceNamespace}. */
export interface NamespaceParts {
  readonly registry: Registry;
  readonly sessions: ClientSessions;
  readonly forwards: Pick<Forwards, 'profiles'>;
}

/**
 * Takes the namespace from the path `/{namespace}/mcp` and opens the legacy session that the request names; a session is
 * valid in its own namespace only. A batch in a session that allows batches ends here as the outcome, and its messages
 * continue separately. A call by an app of its own tool becomes one of the served tool. `passes` are paths that another filter serves.
 */
export function serviceNamespace(
  { registry, sessions, forwards }: NamespaceParts,
  passes?: (path: string) => boolean,
): McpFilter {
  return (exchange) => {
    const segment = namespaceSegment(exchange.path);
    if (segment === undefined) {
      if (passes?.(exchange.path)) return undefined;
      return rpcError(INVALID_REQUEST, 'no MCP endpoint here: the path is /{namespace}/mcp', 404);
    }
    const namespace = registry.current.namespace(segment);
    if (!namespace) return notFound(INVALID_REQUEST, `namespace not found: ${decoded(segment)}`, 404);
    exchange.namespace = namespace;
    const { batch, message } = exchange;
    if (message?.kind === 'request' && message.method === 'tools/call') {
      exchange.message = appToolCall(message, namespace) ?? message;
    }
    if (exchange.era === 'modern') return batch && noBatch();
    if (message?.kind === 'request') forwards.profiles.onLegacyClient();

    const token = exchange.headers['mcp-session-id'];
    if (typeof token !== 'string') return batch && noBatch();
    // A client that initializes again may still send its previous session id.
    if (message?.kind === 'request' && message.method === 'initialize') {
      return exchange.head.inBatch ? rpcError(INVALID_REQUEST, 'initialize must not be part of a batch') : undefined;
    }
    const session = sessions.open(token, namespace.name, exchange.principal);
    if (!session) return rpcError(INVALID_REQUEST, 'session not found or ended: initialize again', 404);
    exchange.session = session;
    exchange.capabilities = session.capabilities;
    return batch && (session.protocolVersion === BATCH_VERSION ? batch : noBatch());
  };
}

function noBatch(): McpOutcome {
  return rpcError(INVALID_REQUEST, `batches are accepted only in ${BATCH_VERSION} sessions`, 400);
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
