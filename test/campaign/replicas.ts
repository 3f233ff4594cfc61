import { setTimeout as delay } from 'node:timers/promises';
import { toolList, toolText } from '../fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../fixtures/raw-upstream.ts';
import type { Campaign } from './campaign.ts';
import { RegistryClients, ReplicaTally, ToolClients } from './replicas-clients.ts';
import { Cluster, type ClusterOptions, FAULTS, type Fault } from './replicas-cluster.ts';
import { hasPrograms } from './replicas-programs.ts';

const REGISTRY_CLIENTS = 8;
const SWITCHING_CLIENTS = 3;
const CALLING_CLIENTS = 8;
const TOOLS = 80;
/** Longest interval between two faults of one kind. */
const PAUSE_MS = 2_000;
/** Time of the run through HAProxy and pgbouncer, as a share of the other one. */
const PROGRAMS_SHARE = 1 / 6;
const FAULTS_OF_PROCESSES: readonly Fault[] = ['kill', 'stop'];
const FAULTS_OF_DATABASE: readonly Fault[] = ['reset', 'reset', 'partition', 'partition', 'commit', 'commit', 'crash'];

/** What happened in a run of {@link replicasUnderFaults}. */
export interface ReplicaFigures {
  readonly seconds: number;
  readonly tally: ReplicaTally;
  readonly faults: ReadonlyMap<Fault, number>;
  readonly lostCommits: number;
  /** Milliseconds from the end of the faults until all replicas had the state of the database. */
  readonly recoveredAfter: number | undefined;
}

/**
 * Runs three replicas under concurrent clients and random faults, two at a time, and checks what clients find: no acknowledged
 * write is lost, no read is older than one that ended before it or returns a refused write, no call is carried out twice, and
 * none after its tool was disabled. `print` gets each violation.
 */
export async function replicasUnderFaults(
  seconds: number,
  print: (line: string) => void,
  options?: ClusterOptions,
): Promise<ReplicaFigures> {
  await using cluster = await Cluster.start(options);
  const tally = new ReplicaTally((line) => print(`${new Date().toISOString()} ${line}`));
  const names = Array.from({ length: TOOLS }, (_, at) => `switched${at}`);
  const registry = new RegistryClients(cluster.management.url, tally);
  const tools = new ToolClients(names, cluster, tally);
  const upstream = await startRawUpstream({
    records: false,
    scripts: {
      'tools/list': toolList(...names.map((name) => toolText(name))),
      'tools/call': ({ params }) => {
        tools.onExecuted(String(Object(params.arguments).id));
        return '{"content":[],"resultType":"complete"}';
      },
    },
  });
  const faults = new Map<Fault, number>();
  let isOver = false;
  const fail = async (kinds: readonly Fault[]) => {
    while (!isOver) {
      await delay(Math.random() * PAUSE_MS);
      const kind = kinds[Math.floor(Math.random() * kinds.length)];
      if (isOver || kind === undefined) return;
      faults.set(kind, (faults.get(kind) ?? 0) + 1);
      await cluster.fault(kind);
    }
  };
  try {
    await cluster.replicas[0]?.gateway.forward('upstream', upstream.url);
    const ends = () => isOver;
    const repeat = (count: number, run: (client: number) => Promise<void>) =>
      Array.from({ length: count }, (_, at) => run(at));
    const clients = [
      ...repeat(REGISTRY_CLIENTS, () => registry.run(ends)),
      ...repeat(SWITCHING_CLIENTS, (at) => tools.switchTools(cluster.management.url, at, SWITCHING_CLIENTS, ends)),
      ...repeat(CALLING_CLIENTS, () => tools.callTools(`${cluster.mcp.url}/default/mcp`, ends)),
    ];
    const failing = [fail(FAULTS_OF_PROCESSES), fail(FAULTS_OF_DATABASE)];
    const over = delay(seconds * 1_000).then(() => {
      isOver = true;
    });
    await Promise.all([over, ...failing]);
    const recoveredAfter = await cluster.recovered();
    await Promise.all(clients);
    if (recoveredAfter === undefined) tally.fail('not all replicas had the state of the database within 30 s');
    const before = tally.calls;
    for (const { gateway } of cluster.replicas) {
      const management = `http://${gateway.management()}`;
      await registry.list(management, 'tools');
      await registry.list(management, 'namespaces');
    }
    await tools.callAll();
    if (tally.calls === before) tally.fail('no call has a result after the faults');
    return { seconds, tally, faults, lostCommits: cluster.lostCommits, recoveredAfter };
  } finally {
    isOver = true;
    await upstream.close();
  }
}

export const replicasCampaign: Campaign = {
  name: 'replicas',
  title: 'Replicas on PostgreSQL under faults',
  page: 'docs/replicas.md',
  async run(print, rounds = 60) {
    const own = await replicasUnderFaults(60 * rounds, print);
    const withPrograms = (await hasPrograms())
      ? await replicasUnderFaults(Math.ceil(60 * rounds * PROGRAMS_SHARE), print, { programs: true })
      : undefined;
    const columns = withPrograms ? [own, withPrograms] : [own];
    const header = withPrograms ? '| | | through HAProxy and pgbouncer |\n|---|---|---|' : '| | |\n|---|---|';
    const rows = columns.map(rowsOf);
    const lines = (rows[0] ?? []).map(
      ([label], at) => `| ${[label, ...rows.map((each) => each[at]?.[1])].join(' | ')} |`,
    );
    const failures = columns.flatMap(({ tally }) => tally.failures).map((line) => `- ${line}`);
    return { passed: failures.length === 0, report: [header, ...lines, '', ...failures].join('\n') };
  },
};

/** The figures of one run, with labels. */
function rowsOf({ seconds, tally, faults, lostCommits, recoveredAfter }: ReplicaFigures): [string, string | number][] {
  const { acknowledged, refused, unknown } = tally.writes;
  const kinds = Object.keys(FAULTS) as Fault[];
  return [
    ['minutes; replicas', `${Math.round(seconds / 6) / 10}; 3`],
    ...kinds.map((fault): [string, number] => [FAULTS[fault], faults.get(fault) ?? 0]),
    ['responses to COMMIT that were lost', lostCommits],
    ['writes acknowledged; refused; of unknown outcome', `${acknowledged}; ${refused}; ${unknown}`],
    [
      'reads that must be linearizable; reads that said that they may be out of date',
      `${tally.reads}; ${tally.staleReads}`,
    ],
    ['requests or responses lost on the way', tally.lost],
    [
      'tools enabled or disabled; not confirmed by all replicas but those that were killed',
      `${tally.switches}; ${tally.unconfirmed}`,
    ],
    ['calls with a result; rejected', `${tally.calls}; ${tally.rejected}`],
    [
      'calls that began while the tool was disabled; when all replicas had confirmed that',
      `${tally.whileDisabled}; ${tally.whileConfirmed}`,
    ],
    [
      'from the last fault until all replicas had the state of the database',
      `${recoveredAfter ?? 'more than 30,000'} ms`,
    ],
    [
      '**acknowledged writes lost, reads too old or of refused writes, calls carried out twice or after their tool was disabled**',
      `**${tally.failures.length}**`,
    ],
  ];
}
