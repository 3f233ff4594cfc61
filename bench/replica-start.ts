import { nodeFlags } from '../packages/server/src/app/node-flags.mjs';
import { Database } from '../packages/server/src/registry/store/postgres/database.ts';
import { INSPECTOR_ARGS } from '../test/campaign/process-probe.ts';
import { at, makeCaller, parseJson } from './caller.ts';
import { peakMiB, residentMiB, treeCpuSeconds } from './child.ts';
import { startUpstream } from './gateway.ts';
import { connectProbe } from './memory.ts';
import { listMessage } from './messages.ts';
import type { ReplicaBench } from './replica-bench.ts';

/** Aim and limit of the time from the start of a process until it is ready, with 1,000,000 tools. */
export const startSeconds = { aim: 30, limit: 60 } as const;
/** Limit of the memory per tool: JavaScript heap and buffers without garbage. */
export const bytesPerToolLimit = 2.5 * 1024;

/** Tools in each namespace, from a forward of its own. */
export const toolsPerNamespace = 1_000;

/** Time to write the records of all namespaces. */
const COPY_MS = 600_000;

/** Figures of the start of a replica with a large registry. */
export interface StartFigures {
  readonly namespaces: number;
  readonly readyMs: number;
  /** CPU time of the replica until it is ready. */
  readonly cpuSeconds: number;
  /** Resident memory when it is ready, and at most until then. */
  readonly readyMiB: number;
  readonly peakMiB: number;
  readonly bytesPerTool: number;
}

/** Fills a database with the tools of many forwards, and starts a replica on it. */
export async function measureStart(bench: ReplicaBench): Promise<StartFigures> {
  const { postgres, plan, folder, log } = bench;
  const namespaces = plan.replicaNamespaces;
  await using upstream = await startUpstream(folder, 'legacy', toolsPerNamespace, 500);
  const database = await postgres.createDatabase();
  {
    await using first = await bench.startReplica('start', database);
    await first.addForward('to-ns0', upstream.endpoint('ns0'), 'ns0', toolsPerNamespace);
    await first.child.stop();
  }
  const filledAt = performance.now();
  await copyNamespace(database, namespaces - 1);
  log(`replicas: ${namespaces} namespaces written in ${((performance.now() - filledAt) / 1_000).toFixed(1)} s`);
  await using replica = await bench.startReplica('start', database, {
    nodeFlags: [...nodeFlags({ SERVICE_PERSIST_BACKEND: 'postgres' }), ...INSPECTOR_ARGS],
    readyTimeoutMs: 300_000,
  });
  const { pid } = replica.child;
  const { readyMs } = replica;
  const [cpuSeconds, readyMiB, peak] = [treeCpuSeconds(pid), residentMiB(pid), peakMiB(pid)];
  using caller = makeCaller();
  const listed = await caller.post(replica.endpoint(`ns${namespaces - 1}`), listMessage('modern'));
  const tools = at(parseJson(listed.body), 'result', 'tools');
  if (!Array.isArray(tools) || tools.length !== toolsPerNamespace) {
    throw new Error(`the last namespace is not complete: status ${listed.status}: ${listed.body.slice(0, 300)}`);
  }
  const probe = await connectProbe(replica);
  const { used } = await probe.memory();
  probe.close();
  const bytesPerTool = used / (namespaces * toolsPerNamespace);
  log(`replicas: ready after ${(readyMs / 1_000).toFixed(1)} s, ${bytesPerTool.toFixed(0)} bytes per tool`);
  return { namespaces, readyMs, cpuSeconds, readyMiB, peakMiB: peak, bytesPerTool };
}

/** Adds copies of the records of the namespace `ns0` and its forward, as if they had been discovered too. */
async function copyNamespace(url: string, copies: number): Promise<void> {
  const database = new Database({ url, log: { warn: console.error, error: console.error } });
  try {
    await database.query(
      `INSERT INTO sluice.records (section, id_hash, id, json, is_shadowed, added, position)
       SELECT section, sha256(convert_to(id, 'UTF8')), id, json, is_shadowed, added + copy, position
       FROM (SELECT section, replace(id, 'ns0', 'ns' || copy) AS id, is_shadowed, added, position, copy,
                    regexp_replace(replace(json, 'ns0', 'ns' || copy), '"source":\\d+', '"source":' || 1000 + copy) AS json
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
