import {
  BATCH_VERSION,
  HEADER_PROTOCOL_VERSION,
  INVALID_REQUEST,
  MODERN_VERSIONS,
} from '@sluice/protocol/mcp/constants';
import { checkModernHeaders, eraOf } from '@sluice/protocol/mcp/era';
import { parseMessage } from '@sluice/protocol/mcp/message';
import type { LoadedSettings } from '../../app/config/pipeline/pipeline.ts';
import type { Filter } from '../../http/chain.ts';
import { type Outcome, type RequestContext, rpcError } from '../../http/context.ts';
import type { Registry } from '../../registry/registry.ts';
import type { ClientSessions } from '../sessions/sessions.ts';

/**
 * Parses the JSON-RPC message, settles which era it belongs to, and sets `mcp.method`. What is malformed, or whose
 * headers contradict its body, is answered here and reaches nothing behind. Requests without a message pass: what they
 * are for depends on the path, which is judged later. So does a batch: its messages come by here one by one. With
 * `on_invalid: reject` all that is malformed is answered with HTTP 400, else with the protocol's own statuses (mcp 1).
 * `passes` are paths at which no MCP is spoken.
 */
export function mcp(
  { on_invalid, max_body_bytes }: Pick<Extract<LoadedSettings, { filter: 'mcp' }>, 'on_invalid' | 'max_body_bytes'>,
  passes: (path: string) => boolean,
): Filter {
  return (context) => {
    if (context.method !== 'POST') return markEra(context);
    // The listener holds what the most generous filter of its chain takes.
    if (context.body.length > max_body_bytes) return rpcError(INVALID_REQUEST, 'request body too large', 413);
    if (passes(context.path)) return undefined;
    const outcome = parsePost(context);
    if (on_invalid === 'reject' && outcome?.kind === 'error') return { ...outcome, status: 400 };
    return outcome;
  };
}

function parsePost(context: RequestContext): Outcome | undefined {
  const message = parseMessage(context.body);
  if (message.kind === 'malformed') {
    const { code, message: reason, idText } = message;
    return { kind: 'error', error: { code, message: reason }, status: 400, idText };
  }
  if (message.kind === 'batch') {
    if (context.inBatch) return rpcError(INVALID_REQUEST, 'invalid request: a batch in a batch', 400);
    context.batch = message;
    return markEra(context);
  }
  context.message = message;
  if (message.kind === 'response') return undefined;
  context.metadata.set('mcp.method', message.method);
  const era = eraOf(message, context.headers);
  if (era.kind === 'refused') return rpcError(era.code, era.message, 400, era.data);
  context.era = era.era;
  if (era.era === 'legacy') return undefined;
  const mismatch = checkModernHeaders(message, context.headers);
  return mismatch && rpcError(mismatch.code, mismatch.message, 400);
}

/** Only the version header tells the era of a request without a message. */
function markEra(context: RequestContext): undefined {
  const version = context.headers[HEADER_PROTOCOL_VERSION];
  if (typeof version === 'string' && MODERN_VERSIONS.includes(version)) context.era = 'modern';
}

const MCP_PATH = /^\/([^/]+)\/mcp\/?$/;

/**
 * Takes the namespace from the path `/{namespace}/mcp`, sets `service.namespace`, and opens the legacy session that
 * the request names: a session belongs to a namespace, so it can be told whether it is valid only here. A batch goes no
 * further: in a session that may send them it is the outcome, and what goes on are its messages. `passes` are paths that
 * are somebody else's to answer.
 */
export function serviceNamespace(
  registry: Registry,
  sessions: ClientSessions,
  passes: (path: string) => boolean,
): Filter {
  return (context) => {
    const segment = MCP_PATH.exec(context.path)?.[1];
    if (segment === undefined) {
      if (passes(context.path)) return undefined;
      return rpcError(INVALID_REQUEST, 'no MCP endpoint here: the path is /{namespace}/mcp', 404);
    }
    const namespace = registry.current.namespace(segment);
    if (!namespace) return rpcError(INVALID_REQUEST, `namespace not found: ${decoded(segment)}`, 404);
    context.namespace = namespace;
    context.metadata.set('service.namespace', namespace.name);
    const { batch } = context;
    if (context.era === 'modern') return batch && noBatch();

    const token = context.headers['mcp-session-id'];
    if (typeof token !== 'string') return batch && noBatch();
    // A client that initialises anew may still send the id that it is about to give up.
    if (context.message?.kind === 'request' && context.message.method === 'initialize') {
      return context.inBatch ? rpcError(INVALID_REQUEST, 'initialize must not be part of a batch') : undefined;
    }
    context.session = sessions.open(token, namespace.name, context.user);
    if (!context.session) return rpcError(INVALID_REQUEST, 'session not found or ended: initialize again', 404);
    if (!batch) return undefined;
    return context.session.protocolVersion === BATCH_VERSION ? batch : noBatch();
  };
}

function noBatch(): Outcome {
  return rpcError(INVALID_REQUEST, `batches are accepted only in ${BATCH_VERSION} sessions`, 400);
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
