import { nodeFlags } from '../packages/server/src/app/node-flags.mjs';
import { Database } from '../packages/server/src/registry/store/postgres/database.ts';
import { INSPECTOR_ARGS } from '../test/campaign/process-probe.ts';
import type { Bench } from './bench.ts';
import { at, makeCaller, parseJson } from './caller.ts';
import { peakMiB, residentMiB, treeCpuSeconds } from './child.ts';
import { tenths, whole } from './figures.ts';
import { startUpstream } from './gateway.ts';
import { connectProbe } from './memory.ts';
import { listMessage } from './messages.ts';
import { startReplica, withPostgres } from './replicas.ts';
import type { Report } from './tables.ts';

/** Limit of the time from the start of a process until it is ready, in seconds, with 1,000,000 tools. */
const startBound = { limit: 60, aim: 30 };
/** Limit of the memory per tool: JavaScript heap and buffers without garbage. */
const bytesPerToolBound = { limit: 2.5 * 1024 };

/** Tools in each namespace, from a forward of its own. */
const TOOLS_PER_NAMESPACE = 1_000;

/** Time to write the records of all namespaces. */
const COPY_MS = 600_000;

/** Fills a database with the tools of many forwards, and starts a replica on it. */
export async function measureReplicaStart(bench: Bench): Promise<Report> {
  const { plan, folder, log } = bench;
  const { namespaces } = plan;
  await using owned = new AsyncDisposableStack();
  const shared = await withPostgres(bench, owned);
  const upstream = owned.use(await startUpstream(folder, 'legacy', TOOLS_PER_NAMESPACE, 500));
  const database = await shared.postgres.createDatabase();
  {
    await using first = await startReplica(shared, 'start', { database });
    await first.addForward('to-ns0', upstream.endpoint('ns0'), 'ns0', TOOLS_PER_NAMESPACE);
    await first.child.stop();
  }
  const filledAt = performance.now();
  await copyNamespace(database, namespaces - 1);
  log(`replicas: ${namespaces} namespaces written in ${tenths((performance.now() - filledAt) / 1_000)} s`);
  const replica = owned.use(
    await startReplica(shared, 'start', {
      database,
      nodeFlags: [...nodeFlags({ SERVICE_PERSIST_BACKEND: 'postgres' }), ...INSPECTOR_ARGS],
      readyTimeoutMs: 300_000,
    }),
  );
  const { pid } = replica.child;
  const [cpuSeconds, readyMiB, peak] = [treeCpuSeconds(pid), residentMiB(pid), peakMiB(pid)];
  using caller = makeCaller();
  const listed = await caller.post(replica.endpoint(`ns${namespaces - 1}`), listMessage('modern'));
  const tools = at(parseJson(listed.body), 'result', 'tools');
  if (!Array.isArray(tools) || tools.length !== TOOLS_PER_NAMESPACE) {
    throw new Error(`the last namespace is not complete: status ${listed.status}: ${listed.body.slice(0, 300)}`);
  }
  const probe = await connectProbe(replica);
  const { used } = await probe.memory();
  probe.close();
  const count = namespaces * TOOLS_PER_NAMESPACE;
  const row = (title: string, figure: number, format = whole) => ({ title, cells: [], figure, format });
  return {
    block: 'replica-start',
    measured: 'one start',
    tables: [
      {
        head: [`${whole(count)} tools in ${whole(namespaces)} namespaces`, 'figure'],
        rows: [
          { ...row('start to ready, s', replica.readyMs / 1_000, tenths), bound: startBound },
          row('CPU time of the replica until then, s', cpuSeconds, tenths),
          { ...row('bytes per tool, without garbage', used / count), bound: bytesPerToolBound },
          row('RSS when ready, MiB', readyMiB),
          row('RSS at most until then, MiB', peak),
        ],
      },
    ],
  };
}

/** Adds copies of the records of the namespace `ns0` and its forward, as if they had been discovered too. */
async function copyNamespace(url: string, copies: number): Promise<void> {
  const database = new Database({ url, log: { warn: console.error, error: console.error } });
  try {
    await database.query(
      `INSERT INTO sluice.records (section, id_hash, id, json, added, position)
       SELECT section, sha256(convert_to(id, 'UTF8')), id, json, added + copy, position
       FROM (SELECT section, replace(id, 'ns0', 'ns' || copy) AS id, added, position, copy,
                    regexp_replace(replace(json, 'ns0', 'ns' || copy), '"source": \\d+', '"source": ' || 1000 + copy) AS json
             FROM sluice.records, generate_series(1, $1::integer) AS copy
             WHERE section IN ('namespaces', 'forwards', 'tools', 'resources', 'prompts') AND id LIKE '%ns0%') AS copied`,
      [copies],
      COPY_MS,
    );
    await database.query('UPDATE sluice.state SET revision = revision + $1', [copies]);
    await database.query('ANALYZE', [], COPY_MS);
  } finally {
    await database.close();
  }
}
