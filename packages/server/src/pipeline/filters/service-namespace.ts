import { BATCH_VERSION, INVALID_REQUEST } from '@sluice/protocol/mcp/constants';
import { type Outcome, rpcError } from '../../answer/outcome.ts';
import type { Registry } from '../../registry/registry.ts';
import type { ClientSessions } from '../../sessions/sessions.ts';
import type { Filter } from '../chain.ts';

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
