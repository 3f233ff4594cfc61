// Benchmark of the gateway (npm run bench), see README.md.
import { mkdtempSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { measureAccess } from './access.ts';
import type { Bench } from './bench.ts';
import { measureBridge } from './bridge.ts';
import { requestParts } from './cases.ts';
import { compare, gatewayCases } from './compare.ts';
import { measureEvaluators } from './evaluators.ts';
import { measureImport } from './import.ts';
import { measureInference } from './inference.ts';
import { measureLatency } from './latency.ts';
import { measureMemory } from './memory.ts';
import { measureMixedUsers } from './mixed-users.ts';
import { type Options, type Part, parseOptions, usage } from './options.ts';
import { profileCase } from './profile.ts';
import { installPrograms } from './programs.ts';
import { measureProcesses, measureReplicaCost } from './replica-cost.ts';
import { measureReplicaStart } from './replica-start.ts';
import { measureWrites } from './replica-writes.ts';
import { formatReport, writeBlock } from './report.ts';
import { measurePairings, measureRequests } from './requests.ts';
import { measureStreams } from './streams.ts';
import type { Report } from './tables.ts';
import { startUpstreams } from './targets.ts';
import { measureTelemetry } from './telemetry.ts';

const readme = `${import.meta.dirname}/README.md`;

/** Measurements in their order, with the parts that select them. */
const measurements: readonly (readonly [parts: readonly Part[], (bench: Bench) => Promise<Report>])[] = [
  [requestParts, measureRequests],
  [['latency'], measureLatency],
  [['streams'], measureStreams],
  [['mixed-users'], measureMixedUsers],
  [['access'], measureAccess],
  [['memory'], measureMemory],
  [['pairings'], measurePairings],
  [['bridge'], measureBridge],
  [['inference'], measureInference],
  [['telemetry'], measureTelemetry],
  [['import'], measureImport],
  [['evaluators'], measureEvaluators],
  [['replica-cost'], measureReplicaCost],
  [['replica-processes'], measureProcesses],
  [['replica-writes'], measureWrites],
  [['replica-start'], measureReplicaStart],
];

/** Runs the benchmark. Returns the exit code: 1 if a floor or limit was missed, 2 if a part failed. */
async function run(options: Options, folder: string, owned: AsyncDisposableStack): Promise<number> {
  const { parts, plan, write, against } = options;
  const log = (line: string) => console.error(line);
  installPrograms(log);
  const loadBefore = loadavg()[0] ?? 0;
  if (loadBefore > 0.5) log(`load average is ${loadBefore.toFixed(1)}: figures will be imprecise`);
  const bench: Bench = { options, plan, folder, log, upstreams: await startUpstreams(folder, owned) };
  for (const name of options.profile) {
    const profiled = gatewayCases.find((each) => each.name === name);
    if (profiled) console.log(`${await profileCase(bench, profiled)}\n`);
  }
  if (options.profile.length > 0) return 0;
  if (against !== undefined) {
    const { text, passed } = await compare(bench, against);
    console.log(text);
    return passed ? 0 : 1;
  }
  const missed: string[] = [];
  let failed = false;
  for (const [, measure] of measurements.filter(([names]) => names.some((name) => parts.has(name)))) {
    try {
      const report = await measure(bench);
      const text = formatReport(report, options, loadBefore, missed);
      console.log(`${report.block}: ${text}\n`);
      if (write) writeBlock(readme, report.block, text);
    } catch (error) {
      // Does not affect the figures of the other parts.
      failed = true;
      log(`FAILED ${error instanceof Error ? error.message : error}`);
    }
  }
  for (const line of missed) console.log(`MISSED ${line}\n`);
  return failed ? 2 : missed.length > 0 ? 1 : 0;
}

async function main(): Promise<number> {
  const profiled = gatewayCases.map(({ name }) => name);
  const options = parseOptions(process.argv.slice(2), join(import.meta.dirname, '..'), profiled);
  if (options === undefined) {
    console.log(usage(profiled));
    return 0;
  }
  if (process.platform !== 'linux') throw new Error('the benchmark requires Linux: it reads CPU time from /proc');
  const folder = mkdtempSync(join(tmpdir(), 'bench-'));
  await using owned = new AsyncDisposableStack();
  owned.defer(() => rmSync(folder, { recursive: true, force: true }));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void owned.disposeAsync().finally(() => process.exit(130)));
  }
  return await run(options, folder, owned);
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}
