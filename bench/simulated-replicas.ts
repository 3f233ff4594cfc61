// Process with many replicas that consist of their connections to the database alone:
//   node bench/simulated-replicas.ts --database <url> --server <pid of PostgreSQL> --replicas <n> --idle <s> --changes <n>
// Prints its figures as one JSON line.
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Database } from '../packages/server/src/registry/store/postgres/database.ts';
import type { StoredChange } from '../packages/server/src/registry/store/postgres/records.ts';
import { type Follower, SharedLog } from '../packages/server/src/registry/store/postgres/shared-log.ts';
import type { Commit, StoreLog } from '../packages/server/src/registry/store/store.ts';
import { treeCpuSeconds } from './child.ts';
import { percentile } from './figures.ts';

/** Figures of this process. CPU time of PostgreSQL includes that of all its connections. */
export interface SimulationResult {
  readonly connections: number;
  /** Without changes: transactions and CPU milliseconds of PostgreSQL, per second. */
  readonly idleTransactions: number;
  readonly idleCpuMs: number;
  /** A change: transactions and CPU milliseconds of PostgreSQL, without those of idle replicas. */
  readonly changeTransactions: number;
  readonly changeCpuMs: number;
  /** Milliseconds from its acknowledgment until the last replica has applied it. */
  readonly appliedP50Ms: number;
  readonly appliedP99Ms: number;
  /** As above, of a change that waits for all replicas, until they have confirmed it. */
  readonly confirmedCpuMs: number;
  readonly confirmedP50Ms: number;
  readonly confirmedP99Ms: number;
}

const SECTION = 'simulated';
/** Time between changes: nothing of one is left when the next one begins. */
const PAUSE_MS = 250;
/** PostgreSQL writes its statistics once a second. */
const STATISTICS_MS = 1_500;

/** Counts the changes that a replica has applied. */
class CountingFollower implements Follower {
  readonly sections = [SECTION];
  applied = 0;
  readonly #onApplied: () => void;

  constructor(onApplied: () => void) {
    this.#onApplied = onApplied;
  }

  async apply(changes: readonly StoredChange[]): Promise<void> {
    this.applied += changes.length;
    this.#onApplied();
  }

  async reload(): Promise<void> {}
}

const { values } = parseArgs({
  options: {
    database: { type: 'string', default: '' },
    server: { type: 'string', default: '' },
    replicas: { type: 'string', default: '' },
    idle: { type: 'string', default: '' },
    changes: { type: 'string', default: '' },
  },
});
const [server, count, idleSeconds, changes] = [values.server, values.replicas, values.idle, values.changes].map(Number);
if (!server || !count || !idleSeconds || !changes) throw new Error('expected --server, --replicas, --idle, --changes');

const log: StoreLog = { warn: console.error, error: console.error };
const database = () => new Database({ url: values.database, log });
const statistics = database();
let made = 0;
let onApplied = () => {};
const followers: CountingFollower[] = [];
const replicas: SharedLog[] = [];
for (let started = 0; started < count; started++) {
  const replica = new SharedLog({ database: database(), log, version: 'simulated' });
  const follower = new CountingFollower(() => onApplied());
  await replica.open();
  await replica.add(follower);
  replica.start();
  replicas.push(replica);
  followers.push(follower);
  // As processes on different machines, they do not renew their leases at the same time.
  await wait(1_000 / count);
}
const [writer] = replicas;
const others = followers.slice(1);

const commit = async () => {
  const change = { op: 'put', section: SECTION, id: String(made), json: '{}', isShadowed: false } as const;
  const commit: Commit = { changes: [change], publish: () => made++ };
  await writer?.commit(commit);
};

const allApplied = () =>
  new Promise<void>((resolve) => {
    onApplied = () => {
      if (others.every(({ applied }) => applied >= made)) resolve();
    };
    onApplied();
  });

async function counters() {
  const [row] = await statistics.query<{ transactions: string; connections: string }>(
    `SELECT (SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database WHERE datname = current_database()) AS transactions,
            (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()) AS connections`,
  );
  return { transactions: Number(row?.transactions), connections: Number(row?.connections) };
}

/** What PostgreSQL does meanwhile, per second or change. */
async function measure(work: () => Promise<void>) {
  await wait(STATISTICS_MS);
  const before = await counters();
  const cpuBefore = treeCpuSeconds(server ?? 0);
  const startedAt = performance.now();
  await work();
  await wait(STATISTICS_MS);
  const seconds = (performance.now() - startedAt) / 1_000;
  const cpuMs = (treeCpuSeconds(server ?? 0) - cpuBefore) * 1_000;
  const after = await counters();
  return { seconds, cpuMs, transactions: after.transactions - before.transactions, connections: after.connections };
}

/** The same for changes, without what idle replicas do in that time. */
async function measureChanges(change: () => Promise<number>) {
  const times: number[] = [];
  const { seconds, cpuMs, transactions } = await measure(async () => {
    for (let at = 0; at < (changes ?? 0); at++) {
      times.push(await change());
      await wait(PAUSE_MS);
    }
  });
  const perChange = (total: number, idlePerSecond: number) => (total - idlePerSecond * seconds) / times.length;
  return {
    cpuMs: perChange(cpuMs, idle.cpuMs / idle.seconds),
    transactions: perChange(transactions, idle.transactions / idle.seconds),
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
  };
}

const idle = await measure(() => wait(idleSeconds * 1_000));
const ordinary = await measureChanges(async () => {
  await commit();
  const acknowledgedAt = performance.now();
  await allApplied();
  return performance.now() - acknowledgedAt;
});
const confirmed = await measureChanges(async () => {
  await commit();
  const storedAt = performance.now();
  const unconfirmed = await writer?.confirm();
  if (unconfirmed?.length !== 0) throw new Error(`${unconfirmed?.length} replicas have not confirmed a change`);
  return performance.now() - storedAt;
});
const result: SimulationResult = {
  connections: idle.connections,
  idleTransactions: idle.transactions / idle.seconds,
  idleCpuMs: idle.cpuMs / idle.seconds,
  changeTransactions: ordinary.transactions,
  changeCpuMs: ordinary.cpuMs,
  appliedP50Ms: ordinary.p50Ms,
  appliedP99Ms: ordinary.p99Ms,
  confirmedCpuMs: confirmed.cpuMs,
  confirmedP50Ms: confirmed.p50Ms,
  confirmedP99Ms: confirmed.p99Ms,
};
await Promise.all(replicas.map((replica) => replica.close()));
await statistics.close();
console.log(JSON.stringify(result));
