import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { INVALID_PARAMS, META_CLIENT_INFO } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { parseListenFilter } from '@sluice/protocol/mcp/subscriptions';
import type { LongStreams } from '../../answer/long-streams.ts';
import { type Outcome, rpcError } from '../../answer/outcome.ts';
import { FORWARDING_LOOP } from '../../forwards/relay.ts';
import type { Implementation } from '../../mcp/identity.ts';
import { type ListenParts, ListenStream } from '../../notices/listen-stream.ts';
import type { Notices } from '../../notices/notices.ts';
import type { Namespace } from '../../registry/names.ts';
import type { Registry } from '../../registry/registry.ts';
import type { NamespaceState } from '../../registry/snapshot.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
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
  readonly log: TargetLogger;
}

/** Each uri is looked for among the templates of the namespace, and kept for as long as the stream is open. */
const MAX_URIS = 1_000;

/** `subscriptions/listen` of modern clients, and `resources/subscribe` and `unsubscribe` of legacy ones (mcp 1). */
export function serviceSubscribe(parts: SubscribeParts): Filter {
  const { registry, forwards, relay, notices, longStreams, log } = parts;
  const unlisted = (namespace: NamespaceState, uri: string) => relay.forwardOfUnlisted(namespace, uri);
  const listening = { notices, longStreams, watching: { registry, forwards, unlisted, log } };
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
  const own = relay.upstreamHeaders(headers);
  if (!own) return FORWARDING_LOOP;
  const watcher = {
    namespace,
    clientInfo: clientInfo(message) ?? { ...serverInfo },
    capabilities,
    headers: own,
  };
  return { kind: 'stream', start: (client) => new ListenStream(listening, asked, watcher, client).start() };
}

function clientInfo({ params: { _meta: meta } }: RequestMessage): JsonObject | undefined {
  const info = isJsonObject(meta) ? meta[META_CLIENT_INFO] : undefined;
  return isJsonObject(info) ? info : undefined;
}
