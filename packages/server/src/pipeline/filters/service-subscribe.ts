import type { LongStreams } from '../../answer/long-streams.ts';
import { type Outcome, rpcError } from '../../answer/outcome.ts';
import { nextHop } from '../../forwards/caller-headers.ts';
import { isJsonObject, type JsonObject } from '../../json/lossless.ts';
import type { Implementation } from '../../mcp/identity.ts';
import { parseListenFilter } from '../../mcp/listen-filter.ts';
import type { RequestMessage } from '../../mcp/message.ts';
import { HEADER_HOPS, INTERNAL_ERROR, INVALID_PARAMS, META_CLIENT_INFO } from '../../mcp/protocol.ts';
import { type ListenParts, ListenStream } from '../../notices/listen-stream.ts';
import type { Notices } from '../../notices/notices.ts';
import type { Namespace } from '../../registry/names.ts';
import type { Registry } from '../../registry/registry.ts';
import type { NamespaceState } from '../../registry/snapshot.ts';
import type { Filter } from '../chain.ts';
import type { RequestContext } from '../context.ts';
import { type ResourceSubscriptionParts, resourceSubscription } from './resource-subscription.ts';

/** What the filter works with. */
export interface SubscribeParts extends ResourceSubscriptionParts {
  readonly registry: Registry;
  readonly notices: Notices;
  readonly longStreams: LongStreams;
  /** Who we are, told to upstreams by clients that do not say who they are. */
  readonly serverInfo: Implementation;
}

/** Each uri is looked for among the templates of the namespace, and kept for as long as the stream is open. */
const MAX_URIS = 1_000;

/** `subscriptions/listen` of modern clients, and `resources/subscribe` and `unsubscribe` of legacy ones (mcp 1). */
export function serviceSubscribe(parts: SubscribeParts): Filter {
  const { registry, forwards, relay, notices, longStreams } = parts;
  const unlisted = (namespace: NamespaceState, uri: string) => relay.forwardOfUnlisted(namespace, uri);
  const listening = { notices, longStreams, watching: { registry, forwards, unlisted } };
  return (context) => {
    const { message, namespace, era } = context;
    if (message?.kind !== 'request' || !namespace) return undefined;
    if (era === 'modern' && message.method === 'subscriptions/listen') {
      return listen(context, message, namespace.name, parts, listening);
    }
    if (era === 'legacy' && (message.method === 'resources/subscribe' || message.method === 'resources/unsubscribe')) {
      return resourceSubscription(message.method, context, message, parts);
    }
    return undefined;
  };
}

function listen(
  { headers, capabilities }: RequestContext,
  message: RequestMessage,
  namespace: Namespace,
  { relay, serverInfo }: SubscribeParts,
  listening: ListenParts,
): Outcome {
  const asked = parseListenFilter(message.params.notifications);
  if (typeof asked === 'string') return rpcError(INVALID_PARAMS, asked);
  const uris = asked.resourceSubscriptions ?? [];
  if (uris.length > MAX_URIS) {
    return rpcError(INVALID_PARAMS, `parameter "notifications.resourceSubscriptions" has more than ${MAX_URIS} uris`);
  }
  const hop = nextHop(headers);
  if (hop === undefined) return rpcError(INTERNAL_ERROR, 'forwarding loop');
  const watcher = {
    namespace,
    clientInfo: clientInfo(message) ?? { ...serverInfo },
    capabilities,
    headers: [HEADER_HOPS, String(hop), ...relay.forwardedHeaders(headers)],
  };
  return { kind: 'stream', start: (client) => new ListenStream(listening, asked, watcher, client).start() };
}

function clientInfo({ params: { _meta: meta } }: RequestMessage): JsonObject | undefined {
  const info = isJsonObject(meta) ? meta[META_CLIENT_INFO] : undefined;
  return isJsonObject(info) ? info : undefined;
}
