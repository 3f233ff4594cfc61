import type { TestPostgres } from '../packages/server/testing/postgres.ts';
import { at, makeCaller, parseJson } from './caller.ts';
import type { Upstreams } from './contenders.ts';
import type { Gateway, GatewayStart } from './gateway.ts';
import type { Plan } from './options.ts';

/** What the measurements of replicas share. */
export interface ReplicaBench {
  readonly postgres: TestPostgres;
  readonly upstreams: Upstreams;
  readonly plan: Plan;
  readonly folder: string;
  readonly log: (line: string) => void;
  /** Starts a gateway with a registry folder. */
  startAlone(name: string): Promise<Gateway>;
  /** Starts a replica on a database, with further environment variables. */
  startReplica(name: string, database: string, start?: Partial<GatewayStart>): Promise<Gateway>;
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
