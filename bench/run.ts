// npm run bench: measures the gateway against nginx and against calling directly, all in one run. See README.md here.
import { mkdtempSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectService, measureBridge } from './bridge.ts';
import { bridgeCases, cases, completionStreams, pairings, streamCases } from './cases.ts';
import { connectUpstreams, startContenders } from './contenders.ts';
import { measureEvaluators } from './evaluators.ts';
import { evaluatorReport } from './evaluators-table.ts';
import { startFixture } from './fixture.ts';
import type { Gateway } from './gateway.ts';
import { startGrpcService } from './grpc-calls.ts';
import { measureImport } from './import.ts';
import { inferenceStart, measureInference, startCompletions } from './inference.ts';
import { type CaseFigures, measureCases } from './measure.ts';
import type { Relayed } from './nginx.ts';
import { type Options, parseOptions, usage } from './options.ts';
import { findPrograms } from './packages.ts';
import { measurePairings } from './pairings.ts';
import { type Profile, profileCase } from './profile.ts';
import { profileText, report, writeBlock } from './report.ts';
import { measureSize } from './size.ts';
import { sourceAt } from './source-at.ts';
import { measureStreams, type StreamFigures } from './streams.ts';
import { measureTelemetry } from './telemetry.ts';

const readme = `${import.meta.dirname}/README.md`;
const say = (line: string) => console.error(line);

/** Runs what the options ask for; resolves to the exit code: 1 when a floor was missed. */
async function bench(options: Options, folder: string, owned: AsyncDisposableStack): Promise<number> {
  const programs = findPrograms(say);
  const loadBefore = loadavg()[0] ?? 0;
  if (loadBefore > 0.5) say(`the machine is busy (load ${loadBefore.toFixed(1)}): the figures will be rough`);
  const gatewayStart = {
    ...options,
    registryFolder: `${folder}/registry`,
    outputFile: `${folder}/gateway.log`,
  };
  const startUpstreams = async () => ({
    legacy: owned.use(await startFixture(folder, 'legacy', 20, 20)),
    modern: owned.use(await startFixture(folder, 'modern', 20, 20)),
  });

  if (options.profile.length > 0) {
    const requests = [...cases, ...pairings, ...bridgeCases];
    const needWrk = options.profile.some((name) => requests.some((measured) => measured.name === name));
    if (needWrk && !programs.wrk) return 1;
    const upstreams = await startUpstreams();
    const profiles: Profile[] = [];
    for (const measured of [...requests, ...streamCases, completionStreams].filter(({ name }) =>
      options.profile.includes(name),
    )) {
      await using service = measured.method === 'bridge' ? await startGrpcService(folder) : undefined;
      await using completions = measured.method === 'completion' ? await startCompletions(folder) : undefined;
      const common = { ...gatewayStart, registryFolder: `${folder}/registry-${measured.name}` };
      const start = completions ? inferenceStart(common, completions) : common;
      const connect = (gateway: Gateway) =>
        service ? connectService(gateway, service) : connectUpstreams(gateway, upstreams);
      profiles.push(await profileCase(measured, start, connect, options.plan, options.quick ? 3 : 6, folder));
    }
    const text = profileText(profiles);
    console.log(text);
    if (options.write) writeBlock(readme, 'profile', text);
    return 0;
  }

  const upstreams = await startUpstreams();
  const against = () =>
    options.against === undefined ? undefined : sourceAt(options.against, join(import.meta.dirname, '..'), folder);
  const start = (relayed: Relayed) => {
    const registryFolder = `${folder}/registry-${relayed}`;
    const nginx = programs.nginx ? { folder: `${folder}/nginx-${relayed}`, relayed } : undefined;
    return startContenders({ ...gatewayStart, registryFolder }, upstreams, nginx, owned);
  };
  let figures: CaseFigures[] = [];
  if (options.parts.has('list') || options.parts.has('call')) {
    const contenders = await start('answers');
    figures = await measureCases(options.parts, contenders, options.plan, folder, programs.wrk, say);
    for (const { child } of contenders) await child?.stop();
  }
  const paired = options.parts.has('pairings') && programs.wrk;
  const pairs = paired ? await measurePairings(gatewayStart, upstreams, options.plan, folder, say) : [];
  let streams: StreamFigures[] = [];
  if (options.parts.has('streams')) {
    const contenders = await start('streams');
    streams = await measureStreams(contenders, options.plan, folder, say);
    for (const { child } of contenders) await child?.stop();
  }
  const bridged = options.parts.has('bridge') && programs.wrk;
  const bridge = bridged ? await measureBridge(gatewayStart, options.plan, folder, say) : [];
  const inference = options.parts.has('inference')
    ? await measureInference(gatewayStart, options.plan, folder, programs.nginx, programs.wrk, say)
    : undefined;
  const telemetry =
    options.parts.has('telemetry') && programs.wrk
      ? await measureTelemetry(gatewayStart, upstreams, against(), options.plan, folder, say)
      : [];
  const size = options.parts.has('size') ? await measureSize(options, folder, programs.wrk, say) : undefined;
  const imports = options.parts.has('import') ? await measureImport(options, folder, say) : [];
  const evaluators = options.parts.has('evaluators') ? await measureEvaluators(options.plan, say) : undefined;
  const found = { cases: figures, pairings: pairs, streams, bridge, inference, telemetry, size, imports };
  const reports = [
    ...(options.parts.size > 1 || evaluators === undefined
      ? [{ block: 'figures', ...report(found, options, loadBefore) }]
      : []),
    ...(evaluators ? [{ block: 'evaluators', ...evaluatorReport(evaluators, options, loadBefore) }] : []),
  ];
  for (const { text } of reports) console.log(`${text}\n`);
  const missed = reports.flatMap((each) => each.missed);
  for (const line of missed) console.log(`MISSED ${line}\n`);
  if (options.write) for (const { block, text } of reports) writeBlock(readme, block, text);
  return missed.length > 0 ? 1 : 0;
}

async function main(): Promise<number> {
  const options = parseOptions(process.argv.slice(2), join(import.meta.dirname, '..'));
  if (options === undefined) {
    console.log(usage);
    return 0;
  }
  if (process.platform !== 'linux') throw new Error('the bench reads CPU time from /proc and runs on Linux only');
  const folder = mkdtempSync(join(tmpdir(), 'bench-'));
  await using owned = new AsyncDisposableStack();
  owned.defer(() => rmSync(folder, { recursive: true, force: true }));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void owned.disposeAsync().finally(() => process.exit(130)));
  }
  return await bench(options, folder, owned);
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}
