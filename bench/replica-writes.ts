import { setTimeout as wait } from 'node:timers/promises';
import type { Bench } from './bench.ts';
import { at, type Caller, makeCaller, parseJson } from './caller.ts';
import { percentile, tenths, whole } from './figures.ts';
import type { Gateway } from './gateway.ts';
import { type Message, promptListMessage } from './messages.ts';
import { startReplica, waitForReplicas, withPostgres } from './replicas.ts';
import type { Report, Row } from './tables.ts';

/** Acknowledged writes per second that three replicas must reach. */
const writesBound = { floor: 1_000 };
/** Limit of the p99 of the time from an acknowledged change until every replica serves it, in milliseconds. */
const seenBound = { limit: 100 };

const REPLICAS = 3;
/** Clients that write at the same time, each to the replicas in turn. */
const WRITERS = 96;
const NAMESPACE = 'seen';

/**
 * Measures concurrent writes to three replicas, and single ones until the others serve them.
 *
 * @throws Error if a write is not acknowledged, or a replica lacks one
 */
export async function measureWrites(bench: Bench): Promise<Report> {
  const { plan, log } = bench;
  await using owned = new AsyncDisposableStack();
  const shared = await withPostgres(bench, owned);
  const database = await shared.postgres.createDatabase();
  const gateways: Gateway[] = [];
  for (let at = 0; at < REPLICAS; at++) {
    gateways.push(owned.use(await startReplica(shared, `writes-${at}`, { database })));
  }
  for (const gateway of gateways) await waitForReplicas(gateway, REPLICAS);
  // The engine compiles, and PostgreSQL fills its caches.
  await write(gateways, plan.writeSeconds / 2, 'warm');
  const before = await commits(gateways);
  const { perSecond, times } = await write(gateways, plan.writeSeconds, 'measured');
  const perCommit = times.length / ((await commits(gateways)) - before);
  log(`replicas: ${perSecond.toFixed(0)} writes per second, ${perCommit.toFixed(1)} per commit`);
  const { seen, removals } = await measureSeen(gateways, plan.changes);
  const ms = (title: string, values: readonly number[]): Row => ({
    title,
    cells: [tenths(percentile(values, 0.5))],
    figure: percentile(values, 0.99),
    format: tenths,
  });
  const written: Row = { title: 'acknowledged writes', cells: [tenths(perCommit)], figure: perSecond, format: whole };
  return {
    block: 'replica-writes',
    measured: `${plan.writeSeconds} s of writes, ${plan.changes} single changes`,
    tables: [
      { head: ['three replicas', 'per commit', 'per second'], rows: [{ ...written, bound: writesBound }] },
      {
        head: ['three replicas', 'p50 ms', 'p99 ms'],
        rows: [
          ms('acknowledged writes', times),
          { ...ms('from an acknowledged change until it is seen everywhere', seen), bound: seenBound },
          ms('removal, applied by all replicas', removals),
        ],
      },
    ],
  };
}

const json = { 'Content-Type': 'application/json' };

const prompt = (name: string, namespace: string): Message => ({
  headers: json,
  body: JSON.stringify({
    name,
    namespace,
    description: 'What to ask a customer',
    content: 'Ask for the order number.',
  }),
});

async function create(caller: Caller, { management }: Gateway, name: string, namespace = 'default'): Promise<void> {
  const { status, body } = await caller.post(new URL('/api/v1/prompts', management), prompt(name, namespace));
  if (status !== 201) throw new Error(`prompt "${name}": status ${status}: ${body}`);
}

async function write(gateways: readonly Gateway[], seconds: number, name: string) {
  const startedAt = performance.now();
  const end = startedAt + seconds * 1_000;
  const times: number[] = [];
  const writer = async (_: unknown, index: number) => {
    using caller = makeCaller();
    for (let count = 0; performance.now() < end; count++) {
      const gateway = gateways[(index + count) % gateways.length];
      const sentAt = performance.now();
      if (gateway) await create(caller, gateway, `${name}-${index}-${count}`);
      times.push(performance.now() - sentAt);
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, writer));
  const perSecond = times.length / ((performance.now() - startedAt) / 1_000);
  using caller = makeCaller();
  for (const { management } of gateways) {
    const { body } = await caller.get(new URL('/api/v1/prompts', management));
    const listed = at(parseJson(body), 'data');
    const has = Array.isArray(listed)
      ? listed.filter((entry: unknown) => String(at(entry, 'name')).startsWith(`${name}-`)).length
      : 0;
    if (has !== times.length) throw new Error(`${has} of ${times.length} acknowledged writes are at ${management}`);
  }
  return { perSecond, times };
}

/** Commits of all replicas since they started. */
async function commits(gateways: readonly Gateway[]): Promise<number> {
  using caller = makeCaller();
  let count = 0;
  for (const { management } of gateways) {
    const { body } = await caller.get(new URL('/metrics', management));
    count += Number(/^sluice_replica_commits_total(?:\{.*\})? ([0-9.e+]+)$/m.exec(body)?.[1]);
  }
  return count;
}

async function measureSeen(gateways: readonly Gateway[], changes: number) {
  const callers = gateways.map(() => makeCaller());
  const [first] = gateways;
  using stack = new DisposableStack();
  for (const caller of callers) stack.use(caller);
  if (first) await callers[0]?.post(new URL('/api/v1/namespaces', first.management), namespaceMessage);
  const seen: number[] = [];
  const removals: number[] = [];
  for (let change = 0; change < changes; change++) {
    const writer = gateways[change % gateways.length];
    const writing = callers[change % gateways.length];
    if (!writer || !writing) continue;
    const name = `change-${change}`;
    await create(writing, writer, name, NAMESPACE);
    const acknowledgedAt = performance.now();
    await Promise.all(
      gateways.map(async (gateway, index) => {
        const caller = callers[index];
        if (gateway === writer || !caller) return;
        await untilListed(caller, gateway, name);
        seen.push(performance.now() - acknowledgedAt);
      }),
    );
    const sentAt = performance.now();
    const removed = await writing.delete(new URL(`/api/v1/prompts/${name}?namespace=${NAMESPACE}`, writer.management));
    if (removed.status !== 200) throw new Error(`removal of "${name}": status ${removed.status}: ${removed.body}`);
    removals.push(performance.now() - sentAt);
    // Idle, as between the changes of operators.
    await wait(20);
  }
  return { seen, removals };
}

const namespaceMessage: Message = { headers: json, body: JSON.stringify({ name: NAMESPACE }) };

async function untilListed(caller: Caller, gateway: Gateway, name: string): Promise<void> {
  const url = gateway.endpoint(NAMESPACE);
  const deadline = performance.now() + 10_000;
  for (;;) {
    const { status, body } = await caller.post(url, promptListMessage);
    if (status === 200 && body.includes(`"${name}"`)) return;
    if (performance.now() > deadline) throw new Error(`${url} does not list "${name}": status ${status}: ${body}`);
    await wait(1);
  }
}
