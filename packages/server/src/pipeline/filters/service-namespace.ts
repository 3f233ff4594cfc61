import { rpcError } from '../../answer/outcome.ts';
import { INVALID_REQUEST } from '../../mcp/protocol.ts';
import type { Registry } from '../../registry/registry.ts';
import type { ClientSessions } from '../../sessions/sessions.ts';
import type { Filter } from '../chain.ts';

const MCP_PATH = /^\/([^/]+)\/mcp\/?$/;

/**
 * Takes the namespace from the path `/{namespace}/mcp`, sets `service.namespace`, and opens the legacy session that
 * the request names: a session belongs to a namespace, so it can be told whether it is valid only here.
 */
export function serviceNamespace(registry: Registry, sessions: ClientSessions): Filter {
  return (context) => {
    const segment = MCP_PATH.exec(context.path)?.[1];
    if (segment === undefined) {
      return rpcError(INVALID_REQUEST, 'no MCP endpoint here: the path is /{namespace}/mcp', 404);
    }
    const namespace = registry.current.namespace(segment);
    if (!namespace) return rpcError(INVALID_REQUEST, `namespace not found: ${decoded(segment)}`, 404);
    context.namespace = namespace;
    context.metadata.set('service.namespace', namespace.name);
    if (context.era === 'modern') return undefined;

    const token = context.headers['mcp-session-id'];
    if (typeof token !== 'string') return undefined;
    // A client that initialises anew may still send the id that it is about to give up.
    if (context.message?.kind === 'request' && context.message.method === 'initialize') return undefined;
    context.session = sessions.open(token, namespace.name, context.user);
    if (context.session) return undefined;
    return rpcError(INVALID_REQUEST, 'session not found or ended: initialize again', 404);
  };
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
