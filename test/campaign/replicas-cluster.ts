import { setTimeout as delay } from 'node:timers/promises';
import { startPostgres, type TestPostgres } from '../../packages/server/testing/postgres.ts';
import { type Balancer, startBalancer } from '../fixtures/balancer.ts';
import { freePort } from '../fixtures/free-port.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import { replicaEnvironment } from '../fixtures/replicas.ts';
import type { ReplicaAddresses } from './replicas-clients.ts';
import { startHaproxy, startPgbouncer } from './replicas-programs.ts';
import { type DatabaseRelay, openDatabaseRelay } from './replicas-relay.ts';

const REPLICAS = 3;

/** A replica in a process of its own, and its way to PostgreSQL. */
interface ReplicaProcess {
  readonly gateway: Gateway;
  readonly relay: DatabaseRelay;
  /** `host:port` of its MCP listener. */
  readonly mcp: string;
  isRunning: boolean;
}

/** Faults that {@link Cluster.fault} makes. */
export const FAULTS = {
  kill: 'replica killed and restarted',
  stop: 'replica stopped for some seconds',
  reset: 'connections of a replica to PostgreSQL broken',
  partition: 'replica cut off from PostgreSQL for some seconds',
  commit: 'response to COMMIT lost',
  crash: 'PostgreSQL crashed and restarted',
} as const;

/** What is between clients, replicas and PostgreSQL. */
export interface ClusterOptions {
  /** HAProxy before the replicas, and pgbouncer before PostgreSQL. */
  readonly programs?: boolean;
}

/** Name of a fault. */
export type Fault = keyof typeof FAULTS;

/** Three replicas as processes on one durable PostgreSQL, behind balancers that send each request to the next replica. */
export class Cluster implements AsyncDisposable, ReplicaAddresses {
  readonly management: Balancer;
  readonly mcp: Balancer;
  readonly replicas: readonly ReplicaProcess[];
  readonly #postgres: TestPostgres;
  readonly #pooler: AsyncDisposable | undefined;
  /** Ids of processes that were killed. */
  readonly #ended = new Set<unknown>();

  private constructor(
    postgres: TestPostgres,
    replicas: readonly ReplicaProcess[],
    management: Balancer,
    mcp: Balancer,
    pooler: AsyncDisposable | undefined,
  ) {
    this.#postgres = postgres;
    this.#pooler = pooler;
    this.replicas = replicas;
    this.management = management;
    this.mcp = mcp;
  }

  static async start({ programs = false }: ClusterOptions = {}): Promise<Cluster> {
    const postgres = await startPostgres({ durable: true });
    const database = await postgres.createDatabase();
    const pooler = programs ? await startPgbouncer(postgres.port) : undefined;
    const start = async (): Promise<ReplicaProcess> => {
      const relay = await openDatabaseRelay(pooler?.port ?? postgres.port);
      const mcp = `127.0.0.1:${await freePort()}`;
      const gateway = await startGateway({
        mcp,
        env: {
          ...replicaEnvironment(database.replace(`:${postgres.port}/`, `:${relay.port}/`)),
          SERVICE_PEER_LISTEN: '127.0.0.1:0',
          RUST_LOG: 'info,service::mcp::access=off,service::mgmt::access=off',
          // A policy that has been withdrawn is never served.
          SERVICE_REPLICA_MAX_STALENESS: '0',
        },
      });
      return { gateway, relay, mcp, isRunning: true };
    };
    const replicas: ReplicaProcess[] = [];
    // One after the other: a busy machine could not start them in time.
    while (replicas.length < REPLICAS) replicas.push(await start());
    const health = replicas.map(({ gateway }) => gateway.management());
    const balancer = (addresses: readonly string[]) =>
      programs ? startHaproxy(addresses, health) : startBalancer(addresses);
    const management = await balancer(health);
    const mcp = await balancer(replicas.map((replica) => replica.mcp));
    const cluster = new Cluster(postgres, replicas, management, mcp, pooler);
    return cluster;
  }

  /** Makes a fault and repairs it again. */
  async fault(kind: Fault): Promise<void> {
    const replica = this.replicas[Math.floor(Math.random() * this.replicas.length)];
    if (!replica) return;
    const { gateway, relay } = replica;
    switch (kind) {
      case 'kill':
        replica.isRunning = false;
        await gateway.kill();
        this.#ended.add(gateway.logs.findLast(({ msg }) => msg === 'started')?.replica);
        this.#setBackends();
        await delay(Math.random() * 1_000);
        await gateway.restart();
        replica.isRunning = true;
        return this.#setBackends();
      case 'stop': {
        const pid = gateway.pid();
        if (pid === undefined) return;
        process.kill(pid, 'SIGSTOP');
        await delay(1_000 + Math.random() * 5_000);
        process.kill(pid, 'SIGCONT');
        return;
      }
      case 'reset':
        return relay.reset();
      case 'partition':
        relay.partition();
        await delay(1_000 + Math.random() * 7_000);
        // Otherwise, what was sent meanwhile arrives late.
        if (Math.random() < 0.5) relay.reset();
        return relay.heal();
      case 'commit':
        return relay.loseCommit();
      case 'crash':
        await this.#postgres.stop('SIGQUIT');
        await delay(Math.random() * 1_500);
        return this.#postgres.start();
    }
  }

  get endpoints(): readonly string[] {
    return this.replicas.map(({ gateway }) => gateway.url());
  }

  hasEnded(id: string): boolean {
    return this.#ended.has(id);
  }

  /** Lost responses to COMMIT. */
  get lostCommits(): number {
    return this.replicas.reduce((sum, { relay }) => sum + relay.lostCommits, 0);
  }

  /** Waits until all replicas have the state of the database; returns the milliseconds, or undefined after 30 s. */
  async recovered(): Promise<number | undefined> {
    const startedAt = performance.now();
    while (performance.now() - startedAt < 30_000) {
      const replies = await Promise.all(this.replicas.map(({ gateway }) => gateway.api('GET', '/api/v1/namespaces')));
      if (replies.every(({ status, body }) => status === 200 && !Object.hasOwn(Object(body), 'stale'))) {
        return Math.round(performance.now() - startedAt);
      }
      await delay(50);
    }
    return undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.management[Symbol.asyncDispose](), this.mcp[Symbol.asyncDispose]()]);
    await Promise.all(this.replicas.map(({ gateway }) => gateway.close()));
    for (const { relay } of this.replicas) relay.close();
    await this.#pooler?.[Symbol.asyncDispose]();
    await this.#postgres[Symbol.asyncDispose]();
  }

  #setBackends(): void {
    const running = this.replicas.filter(({ isRunning }) => isRunning);
    this.management.setBackends(running.map(({ gateway }) => gateway.management()));
    this.mcp.setBackends(running.map(({ mcp }) => mcp));
  }
}
