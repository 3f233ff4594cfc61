// Benchmark of the gateway (npm run bench), see README.md.
import { mkdtempSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectService, measureBridge, startGrpcService } from './bridge.ts';
import { bridgeCases, cases, completionStreams, pairings, streamCases } from './cases.ts';
import { extractCommit } from './checkout.ts';
import { compare, comparedParts, comparisonReport } from './compare.ts';
import {
  type Contender,
  connectUpstreams,
  gatewayContender,
  startContenders,
  startLoaded,
  startRelay,
  type Upstreams,
} from './contenders.ts';
import { measureEvaluators } from './evaluators.ts';
import { type Gateway, type GatewayStart, startGateway, startUpstream } from './gateway.ts';
import { inferenceStart, measureInference, startCompletions } from './inference.ts';
import { measureLatency } from './latency.ts';
import { measureMemory } from './memory.ts';
import { measureMixedUsers } from './mixed-users.ts';
import { type Options, parseOptions, usage } from './options.ts';
import { measurePairings } from './pairings.ts';
import { type Profile, profileCase } from './profile.ts';
import { findPrograms, type Programs } from './programs.ts';
import { measureReplicas } from './replicas.ts';
import { profileReport, type Results, reports, writeBlock } from './report.ts';
import { measureCases, type RequestFigures } from './requests.ts';
import { measureImport, measureSize } from './scale.ts';
import { measureStreams } from './streams.ts';
import { measureTelemetry } from './telemetry.ts';

const readme = `${import.meta.dirname}/README.md`;
const log = (line: string) => console.error(line);

/** Runs the benchmark. Returns the exit code: 1 if a limit was missed. */
async function bench(options: Options, folder: string, owned: AsyncDisposableStack): Promise<number> {
  const programs = findPrograms(log);
  const loadBefore = loadavg()[0] ?? 0;
  if (loadBefore > 0.5) log(`load average is ${loadBefore.toFixed(1)}: figures will be imprecise`);
  const gatewayStart = {
    ...options,
    registryFolder: `${folder}/registry`,
    outputFile: `${folder}/gateway.log`,
  };
  const startUpstreams = async () => ({
    legacy: owned.use(await startUpstream(folder, 'legacy', 20, 20)),
    modern: owned.use(await startUpstream(folder, 'modern', 20, 20)),
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
    const text = profileReport(profiles);
    console.log(text);
    if (options.write) writeBlock(readme, 'profile', text);
    return 0;
  }

  const upstreams = await startUpstreams();
  const other =
    options.against === undefined
      ? undefined
      : await extractCommit(options.against, join(import.meta.dirname, '..'), folder, log);
  const isTelemetryOnly = options.parts.size === 1 && options.parts.has('telemetry');
  if (other !== undefined && !isTelemetryOnly) {
    if (options.parts.isDisjointFrom(comparedParts)) {
      throw new Error(`--against: expected --only with ${[...comparedParts].join(', ')} or telemetry`);
    }
    if (!programs.wrk) return 2;
    const comparisons = await compare(options, gatewayStart, other, upstreams, folder, log);
    const { text, passed } = comparisonReport(comparisons, options);
    console.log(text);
    return passed ? 0 : 1;
  }
  const { parts, plan } = options;
  let failed = false;
  /** Measures a part; an error is printed and does not affect the figures of the others. */
  const attempt = async <T>(isSelected: boolean, measure: () => Promise<T>): Promise<T | undefined> => {
    if (!isSelected) return undefined;
    try {
      return await measure();
    } catch (error) {
      failed = true;
      log(`FAILED ${error instanceof Error ? error.message : error}`);
      return undefined;
    }
  };
  const { wrk, nginx } = programs;
  const ofRequests = cases.some(({ part }) => parts.has(part)) || parts.has('latency');
  const requests = await attempt(ofRequests, () => measureRequests(options, gatewayStart, upstreams, programs, folder));
  const streams = await attempt(parts.has('streams'), async () => {
    await using running = new AsyncDisposableStack();
    const started = nginx ? ({ folder: `${folder}/nginx-streams`, relayed: 'streams' } as const) : undefined;
    const start = { ...gatewayStart, registryFolder: `${folder}/registry-streams` };
    return await measureStreams(await startContenders(start, upstreams, started, running), plan, folder, log);
  });
  const found = {
    ...requests,
    streams,
    mixedUsers: await attempt(parts.has('mixed-users') && wrk, () =>
      measureMixedUsers(gatewayStart, plan, folder, log),
    ),
    memory: await attempt(parts.has('memory'), () => measureMemory(gatewayStart, upstreams, folder, log)),
    pairings: await attempt(parts.has('pairings') && wrk, () =>
      measurePairings(gatewayStart, upstreams, plan, folder, log),
    ),
    bridge: await attempt(parts.has('bridge') && wrk, () => measureBridge(gatewayStart, plan, folder, log)),
    inference: await attempt(parts.has('inference'), () =>
      measureInference(gatewayStart, plan, folder, nginx, wrk, log),
    ),
    telemetry: await attempt(parts.has('telemetry') && wrk, () =>
      measureTelemetry(gatewayStart, upstreams, other?.entry, plan, folder, log),
    ),
    size: await attempt(parts.has('size'), () => measureSize(options, folder, wrk, log)),
    imports: await attempt(parts.has('import'), () => measureImport(options, folder, log)),
    evaluators: await attempt(parts.has('evaluators'), () => measureEvaluators(plan, log)),
    replicas: await attempt(parts.has('replicas') && wrk, () =>
      measureReplicas(options, gatewayStart, upstreams, folder, log),
    ),
  };
  const all = reports(found, options, loadBefore);
  for (const { block, text } of all) console.log(`${block}: ${text}\n`);
  const missed = all.flatMap((report) => report.missed);
  for (const line of missed) console.log(`MISSED ${line}\n`);
  if (options.write) for (const { block, text } of all) writeBlock(readme, block, text);
  return failed ? 2 : missed.length > 0 ? 1 : 0;
}

/** Measures the cases of requests and the response times, on the same processes. */
async function measureRequests(
  { parts, plan }: Options,
  start: GatewayStart,
  upstreams: Upstreams,
  programs: Programs,
  folder: string,
): Promise<Pick<Results, 'requests' | 'latency'>> {
  const measured = programs.wrk && cases.some(({ part }) => parts.has(part));
  await using running = new AsyncDisposableStack();
  const nginx = programs.nginx ? ({ folder: `${folder}/nginx-answers`, relayed: 'answers' } as const) : undefined;
  const startOf = (name: string) => ({
    ...start,
    registryFolder: `${folder}/registry-${name}`,
    outputFile: `${folder}/${name}.log`,
  });
  const contenders = [
    await startRelay(folder, upstreams, running),
    ...(await startContenders(startOf('answers'), upstreams, nginx, running)),
  ].filter(({ name }) => name !== 'direct');
  let requests: readonly RequestFigures[] | undefined;
  if (measured) {
    await using variants = new AsyncDisposableStack();
    const others: Contender[] = [];
    if (parts.has('list') || parts.has('call')) {
      others.push(await startLoaded(startOf('loaded'), upstreams, folder, variants));
      if (plan.withLogOff) {
        const silent = variants.use(await startGateway({ ...startOf('silent'), log: 'off' }));
        await connectUpstreams(silent, upstreams);
        others.push(gatewayContender('gateway, log off', silent));
      }
    }
    requests = await measureCases(parts, [...contenders, ...others], plan, folder, log);
  }
  // The cases of requests have warmed up everything.
  const withWarmUp = programs.wrk && !(measured && parts.has('list') && parts.has('call'));
  const latency = parts.has('latency') ? await measureLatency(contenders, plan, folder, withWarmUp, log) : undefined;
  return { requests, latency };
}

async function main(): Promise<number> {
  const options = parseOptions(process.argv.slice(2), join(import.meta.dirname, '..'));
  if (options === undefined) {
    console.log(usage);
    return 0;
  }
  if (process.platform !== 'linux') throw new Error('the benchmark requires Linux: it reads CPU time from /proc');
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
