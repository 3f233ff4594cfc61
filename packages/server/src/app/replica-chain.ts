import { HEADER_LAST_EVENT_ID, SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import { paramText } from '@sluice/protocol/mcp/message-text';
import { TASK_REQUESTS } from '@sluice/protocol/mcp/methods';
import { REPLICA_LISTENER } from '../exchange/exchange.ts';
import { followedBy } from '../http/chain.ts';
import { rpcError } from '../http/outcome.ts';
import type { PeerClient, PeerRequest } from '../http/peer-client.ts';
import { encodeAuthenticated } from '../identity/peer.ts';
import type { McpExchange, McpFilter, McpOutcome } from '../mcp/exchange.ts';
import type { EventStore } from '../mcp/sessions/event-store.ts';
import type { ReplicatedLog } from '../registry/store/postgres/replicated-log.ts';
import type { SuspendedCalls } from '../upstreams/mcp/era-translation/suspended-calls.ts';
import type { Tasks } from '../upstreams/mcp/tasks/tasks.ts';

/**
 * A chain that a replica runs only while it is live, or else after it has asked the database: what it knows may have been
 * withdrawn (docs/replicas.md). If the database cannot be reached, it serves what it knows for at most `maxStalenessMs`.
 */
export function liveChain(
  chain: McpFilter,
  shared: Pick<ReplicatedLog, 'members' | 'rejoin'>,
  maxStalenessMs: number,
): McpFilter {
  return (exchange) => {
    const { members } = shared;
    if (members.isLive) return chain(exchange);
    return shared.rejoin().then(
      () => chain(exchange),
      () => (members.staleMs <= maxStalenessMs ? chain(exchange) : OUTDATED),
    );
  };
}

const OUTDATED: McpOutcome = rpcError(
  SERVER_ERROR,
  'this replica has not reached the database for longer than SERVICE_REPLICA_MAX_STALENESS: try again later',
  503,
);

const PRINCIPAL_TOO_LARGE: McpOutcome = rpcError(
  SERVER_ERROR,
  'the identity of the caller is too large for the replica that has this call or stream: reduce its groups and claims',
  431,
);

/** Dependencies of {@link routeToOwner}. */
export interface RoutingDeps {
  readonly client: PeerClient;
  readonly members: ReplicatedLog['members'];
  readonly events: Pick<EventStore, 'replicaOf'>;
  readonly suspendedCalls: Pick<SuspendedCalls, 'replicaOf'>;
  readonly tasks: Pick<Tasks, 'locate'>;
  /** Name of the pipeline listener. */
  readonly listener: string;
}

const UNREACHABLE = {
  kind: 'plain',
  status: 503,
  headers: ['Content-Type', 'application/json'],
  body: JSON.stringify({
    jsonrpc: '2.0',
    id: null,
    error: {
      code: SERVER_ERROR,
      message: 'the replica that has this call or stream cannot be reached: try again later',
    },
  }),
} as const;

/**
 * Routes requests to the replica that owns their stream, call or task: a stream to resume, a suspended call, a call that
 * became a task, a server request that the client responds to (docs/replicas.md). If that replica is no longer live, they are
 * answered here, as after a restart. A cancellation is also sent to all others, since the client's id of a call does not name
 * its replica.
 */
export function routeToOwner(filter: McpFilter, { client, members, listener, tasks, ...ids }: RoutingDeps): McpFilter {
  const to = async (owner: string, exchange: McpExchange) => {
    const address = await members.addressOf(owner);
    if (address === undefined) return undefined;
    const request = peerRequest(exchange, listener);
    return request ? client.exchange(address, request, UNREACHABLE) : PRINCIPAL_TOO_LARGE;
  };
  return followedBy(filter, (exchange, outcome) => {
    if (outcome || exchange.head.listener === REPLICA_LISTENER) return outcome;
    const { message, session } = exchange;
    if (session && message?.kind === 'notification' && message.method === 'notifications/cancelled') {
      const { addresses } = members;
      // The call may be at this replica: a principal that cannot be sent does not prevent its cancellation here.
      const request = addresses.length > 0 ? peerRequest(exchange, listener) : undefined;
      if (!request) return undefined;
      const body = Buffer.from(cancellationOf(message.text));
      for (const address of addresses) client.notify(address, request, body);
      return undefined;
    }
    const taskId = taskOf(exchange);
    if (taskId !== undefined) {
      return tasks
        .locate(taskId)
        .then((owner) => (owner === undefined || owner === members.id ? undefined : to(owner, exchange)));
    }
    const owner = ownerOf(exchange, ids);
    return owner === undefined || owner === members.id ? undefined : to(owner, exchange);
  });
}

/** Longest cancellation that all replicas get as it is, in characters: each of them holds a copy. */
const MAX_CANCELLATION = 16 * 1024;

/** A cancellation as other replicas get it: only with the id of the call if it is long. */
function cancellationOf(text: string): string {
  if (text.length <= MAX_CANCELLATION) return text;
  const params = `{"requestId":${paramText(text, 'requestId') ?? null}}`;
  return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`;
}

/** The id of the replica that has what a request is about; undefined for most requests, which any replica can answer. */
function ownerOf(
  { message, session, headers }: McpExchange,
  { events, suspendedCalls }: Pick<RoutingDeps, 'events' | 'suspendedCalls'>,
): string | undefined {
  if (!message) {
    const eventId = headers[HEADER_LAST_EVENT_ID];
    return session && typeof eventId === 'string' ? events.replicaOf(session.id, eventId) : undefined;
  }
  if (message.kind === 'request') {
    const { requestState } = message.params;
    return typeof requestState === 'string' ? suspendedCalls.replicaOf(requestState) : undefined;
  }
  if (!session) return undefined;
  if (message.kind === 'response') return replicaIn(message.idText);
  return message.method === 'notifications/progress' ? replicaIn(paramText(message.text, 'progressToken')) : undefined;
}

/** The task that a request is about; undefined for most requests. */
function taskOf({ message, era }: McpExchange): string | undefined {
  if (message?.kind !== 'request' || era !== 'modern' || !TASK_REQUESTS.modern.includes(message.method))
    return undefined;
  const { taskId } = message.params;
  return typeof taskId === 'string' ? taskId : undefined;
}

/** The replica in the id of a server request: JSON text of a string `replica.number`. */
function replicaIn(idText: string | undefined): string | undefined {
  return /^"([0-9a-f-]{36})\.\d+"$/.exec(idText ?? '')?.[1];
}

/** Undefined if the other replica would not accept the principal. */
function peerRequest(
  { head, path, query, headers, authenticated }: McpExchange,
  listener: string,
): PeerRequest | undefined {
  const principal = encodeAuthenticated(authenticated);
  if (principal === undefined) return undefined;
  return { method: head.method, target: `${path}${query}`, headers, listener, client: head.address, principal };
}
