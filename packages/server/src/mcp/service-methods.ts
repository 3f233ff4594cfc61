import type { Era } from '@sluice/protocol/mcp/constants';
import { KNOWN_METHODS } from '@sluice/protocol/mcp/methods';
import type { Target } from '../access/target.ts';
import type { Kind } from '../registry/entries.ts';
import type { FindMissing, McpExchange, McpFilter, McpRequest } from './exchange.ts';
import { callTool, getPrompt, readResource } from './methods/calls.ts';
import { handleNotification, handleResponse } from './methods/client-messages.ts';
import { discover, EMPTY_RESULT, initialize, setLogLevel } from './methods/lifecycle.ts';
import { serveList } from './methods/lists.ts';
import { complete, findMissingReference, relay } from './methods/other-methods.ts';
import { endSession, METHOD_NOT_ALLOWED, notificationStream } from './methods/session-stream.ts';
import { changeSubscription, findMissingResource, listen } from './methods/subscriptions.ts';
import { findMissingTask, taskRequest } from './methods/tasks.ts';

/** Dependencies of {@link serviceMethods}. */
export type MethodParts = Parameters<typeof initialize>[1] &
  Parameters<typeof serveList>[2] &
  Parameters<typeof callTool>[2] &
  Parameters<typeof listen>[1] &
  Parameters<typeof complete>[1] &
  Parameters<typeof taskRequest>[1] &
  Parameters<typeof handleNotification>[2] &
  Parameters<typeof notificationStream>[2];

/** How requests with a method are served. */
interface Method {
  /** The era that has the method; both if undefined. In the other one, it is unknown. */
  readonly era?: Era;
  readonly serve: (request: McpRequest, parts: MethodParts) => ReturnType<McpFilter>;
  /** If a request names an entry or a task. */
  readonly findMissing?: (request: McpRequest, parts: MethodParts) => ReturnType<FindMissing>;
}

/** The methods of the protocol, and where each is served. */
const METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  ['initialize', { era: 'legacy', serve: initialize }],
  ['server/discover', { era: 'modern', serve: discover }],
  ['ping', { era: 'legacy', serve: () => EMPTY_RESULT }],
  ['logging/setLevel', { era: 'legacy', serve: setLogLevel }],
  ['tools/list', listOf('tool')],
  ['tools/call', aboutEntry(callTool)],
  ['resources/list', listOf('resource')],
  ['resources/templates/list', listOf('resource')],
  ['resources/read', aboutEntry(readResource)],
  ['resources/subscribe', { era: 'legacy', serve: changeSubscription, findMissing: findMissingResource }],
  ['resources/unsubscribe', { era: 'legacy', serve: changeSubscription, findMissing: findMissingResource }],
  ['subscriptions/listen', { era: 'modern', serve: listen }],
  ['prompts/list', listOf('prompt')],
  ['prompts/get', aboutEntry(getPrompt)],
  ['completion/complete', { serve: complete, findMissing: findMissingReference }],
  ['tasks/get', { serve: taskRequest, findMissing: findMissingTask }],
  ['tasks/cancel', { serve: taskRequest, findMissing: findMissingTask }],
  ['tasks/list', { era: 'legacy', serve: taskRequest, findMissing: findMissingTask }],
  ['tasks/result', { era: 'legacy', serve: taskRequest, findMissing: findMissingTask }],
  ['tasks/update', { era: 'modern', serve: taskRequest, findMissing: findMissingTask }],
]);

/** All other methods: those of extensions and vendors, and unknown ones. */
const OTHER: Method = { serve: relay };

/** What is no request: notifications, responses to server requests, GET and DELETE of a session. */
function serveOthers(exchange: McpExchange, parts: MethodParts): ReturnType<McpFilter> {
  const { message, session, head } = exchange;
  if (message?.kind === 'notification') return handleNotification(exchange, message, parts);
  if (message?.kind === 'response') return handleResponse(session, message);
  if (head.method === 'GET' && session) return notificationStream(exchange, session, parts);
  if (head.method === 'DELETE' && session) return endSession(session);
  // No filter has parsed a POST that arrives here.
  return head.method === 'POST' ? undefined : METHOD_NOT_ALLOWED;
}

function listOf(kind: Kind): Method {
  return { serve: (request, parts) => serveList(kind, request, parts) };
}

function aboutEntry(serve: (request: McpRequest, target: Target, parts: MethodParts) => ReturnType<McpFilter>): Method {
  return {
    serve(request, parts) {
      const target = parts.access.resolve(request.namespace, request.message);
      return target?.kind === 'target' ? serve(request, target, parts) : target;
    },
    findMissing: ({ namespace, message }, { access }) => access.findMissing(namespace, message),
  };
}

/**
 * Serves the requests to the MCP endpoint of a namespace. Requests with unknown methods pass, as do those whose method is not in
 * `methods`: they end as `method not found`.
 */
export function serviceMethods(
  methods: readonly string[] | undefined,
  parts: MethodParts,
): { readonly filter: McpFilter; readonly findMissing: FindMissing } {
  const served = methods && new Set(methods);
  const methodOf = ({ message: { method }, era }: McpRequest): Method | undefined => {
    if (served?.has(method) === false) return undefined;
    const found = METHODS.get(method) ?? OTHER;
    return found.era === undefined || found.era === era ? found : undefined;
  };
  return {
    filter(exchange) {
      if (isRequest(exchange)) return methodOf(exchange)?.serve(exchange, parts);
      return exchange.namespace && serveOthers(exchange, parts);
    },
    findMissing: (exchange) => (isRequest(exchange) ? methodOf(exchange)?.findMissing?.(exchange, parts) : undefined),
  };
}

function isRequest(exchange: McpExchange): exchange is McpRequest {
  return exchange.message?.kind === 'request' && exchange.namespace !== undefined;
}

/** What a request is counted as: names that clients choose are not. */
export function countedMethod({ message }: McpExchange): string {
  return message && 'method' in message && KNOWN_METHODS.has(message.method) ? message.method : 'other';
}
