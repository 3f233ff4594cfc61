import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { replicaEnvironment } from '../test/fixtures/replicas.ts';
import { type Bench, startNamed } from './bench.ts';
import { at, makeCaller, parseJson } from './caller.ts';
import type { Gateway, GatewayStart } from './gateway.ts';

/** What measurements of replicas need. */
export interface ReplicaBench extends Bench {
  readonly postgres: TestPostgres;
}

/** Starts a PostgreSQL server that writes to disk as one in production does. */
export async function withPostgres(bench: Bench, owned: AsyncDisposableStack): Promise<ReplicaBench> {
  return { ...bench, postgres: owned.use(await startPostgres({ durable: true })) };
}

/** Starts a replica on a database, with further environment variables. */
export function startReplica(
  bench: ReplicaBench,
  name: string,
  { database, variables, ...others }: Partial<GatewayStart> & { readonly database: string },
): Promise<Gateway> {
  const replica = { ...replicaEnvironment(database), SERVICE_PEER_LISTEN: '127.0.0.1:0', ...variables };
  return startNamed(bench, name, { ...others, variables: replica });
}

/** Waits until a gateway knows `count` live replicas. */
export async function waitForReplicas({ child, management }: Gateway, count: number): Promise<void> {
  using caller = makeCaller();
  await child.waitFor(`${count} replicas were live`, 60_000, async () => {
    const { body } = await caller.get(new URL('/api/v1/replicas', management));
    const listed = at(parseJson(body), 'data');
    if (!Array.isArray(listed)) return undefined;
    return listed.filter((replica: unknown) => at(replica, 'live') === true).length === count || undefined;
  });
}
