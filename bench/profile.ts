import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { at, type Caller, makeCaller, parseJson } from './caller.ts';
import type { BridgeCase, Exchange, InferenceCase, StreamCase } from './cases.ts';
import { type Gateway, type GatewayStart, startGateway } from './gateway.ts';
import { busyCompletions } from './inference.ts';
import { bridged } from './messages.ts';
import type { Plan } from './options.ts';
import { load } from './programs.ts';
import { planLoad, warmUp } from './requests.ts';
import { busyStreams } from './streams.ts';

/** Share of the busy time, 0 to 1. */
export interface Share {
  readonly name: string;
  readonly share: number;
}

/** Case that can be profiled. */
export type ProfiledCase = Exchange | StreamCase | BridgeCase | InferenceCase;

/** Self time of the gateway in a case, without idle time. */
export interface Profile {
  readonly case: ProfiledCase;
  readonly groups: readonly Share[];
  readonly functions: readonly Share[];
}

/**
 * Runs a case with `--cpu-prof` and sums up the samples taken under load.
 *
 * @param seconds duration of the sampled load, after the warm-up
 * @param connect registers the upstreams of the case
 * @throws Error if the gateway wrote no profile
 */
export async function profileCase(
  measured: ProfiledCase,
  start: GatewayStart,
  connect: (gateway: Gateway) => Promise<void>,
  plan: Plan,
  seconds: number,
  folder: string,
): Promise<Profile> {
  const profiles = `${folder}/profile-${measured.name}`;
  mkdirSync(profiles);
  // Most functions of a request are shorter than the default interval of 1 ms.
  const flags = ['--cpu-prof', `--cpu-prof-dir=${profiles}`, '--cpu-prof-interval=250'];
  await using gateway = await startGateway({ ...start, nodeFlags: [...start.nodeFlags, ...flags] });
  await connect(gateway);
  using caller = makeCaller();
  const loaded = await warm(caller, measured, gateway, plan, folder);
  // The profiler uses the same monotonic clock, in microseconds.
  const from = Number(process.hrtime.bigint() / 1000n);
  await loaded(seconds);
  const to = Number(process.hrtime.bigint() / 1000n);
  await gateway.child.stop(40_000);
  const file = readdirSync(profiles).find((name) => name.endsWith('.cpuprofile'));
  if (file === undefined) throw new Error(`the gateway wrote no profile to ${profiles}`);
  return summarize(measured, parseJson(readFileSync(`${profiles}/${file}`, 'utf8')), from, to);
}

/** Warms up the gateway and returns the load function of a case. */
async function warm(caller: Caller, measured: ProfiledCase, gateway: Gateway, plan: Plan, folder: string) {
  if (measured.method === 'stream') {
    return warmStreams(await busyStreams(caller, measured, gateway.endpoint(measured.era), folder), plan);
  }
  if (measured.method === 'completion') return warmStreams(busyCompletions(gateway.completions, folder), plan);
  const namespace = measured.method === 'bridge' ? bridged.namespace : measured.upstream;
  return warmRequests(caller, measured, gateway.endpoint(namespace), plan, folder);
}

/** Warms up the gateway and returns the load function of a case of requests. */
async function warmRequests(caller: Caller, measured: Exchange | BridgeCase, url: URL, plan: Plan, folder: string) {
  const planned = await planLoad(caller, measured, url, `${folder}/load.lua`, undefined);
  const loaded = (seconds: number) => load(planned, seconds);
  await warmUp(plan, loaded);
  return loaded;
}

/** Warms up the gateway with event streams and returns the load function. */
async function warmStreams(loaded: (seconds: number) => Promise<unknown>, plan: Plan) {
  await loaded(plan.streamWarmUpSeconds);
  return loaded;
}

function summarize(measured: ProfiledCase, profile: unknown, from: number, to: number): Profile {
  const frames = new Map<number, { group: string; file: string; name: string }>();
  for (const node of list(at(profile, 'nodes'))) frames.set(Number(at(node, 'id')), frame(at(node, 'callFrame')));
  const deltas = list(at(profile, 'timeDeltas')).map(Number);
  const groups = new Map<string, number>();
  const functions = new Map<string, number>();
  const add = (sums: Map<string, number>, name: string, time: number) => sums.set(name, (sums.get(name) ?? 0) + time);
  let busy = 0;
  let clock = Number(at(profile, 'startTime'));
  for (const [index, id] of list(at(profile, 'samples')).entries()) {
    clock += deltas[index] ?? 0;
    // A sample represents the time until the next one.
    const time = deltas[index + 1] ?? 0;
    const found = frames.get(Number(id));
    if (found === undefined || found.name === '(idle)' || clock < from || clock > to) continue;
    busy += time;
    add(groups, found.group, time);
    add(
      functions,
      found.file === found.group ? `${found.name} (${found.group})` : `${found.name} (${found.file})`,
      time,
    );
  }
  const shares = (sums: Map<string, number>, count: number) =>
    [...sums]
      .map(([name, time]) => ({ name, share: time / busy }))
      .filter(({ share }) => share >= 0.001)
      .sort((a, b) => b.share - a.share)
      .slice(0, count);
  return { case: measured, groups: shares(groups, 10), functions: shares(functions, 10) };
}

const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

const native = 'native code and system calls';

/** Classifies a frame. C++ functions of V8 and Node.js have no file. */
function frame(callFrame: unknown): { group: string; file: string; name: string } {
  const name = String(at(callFrame, 'functionName')) || '(anonymous)';
  const url = String(at(callFrame, 'url'));
  if (name === '(garbage collector)') return { group: 'garbage collection', file: 'garbage collection', name };
  if (url === '') return { group: native, file: native, name };
  if (url.startsWith('node:')) return { group: "Node's own JavaScript", file: url, name };
  if (url.startsWith('wasm:')) return { group: 'gateway', file: 'WebAssembly', name };
  const placed = `${name}:${Number(at(callFrame, 'lineNumber')) + 1}`;
  const dependency = /\/node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*\/node_modules\/)(.*)$/.exec(url);
  if (dependency?.[1] !== undefined) {
    return { group: dependency[1], file: `${dependency[1]}/${dependency[2]}`, name: placed };
  }
  const own = /\/packages\/[^/]+\/src\/(.*)$/.exec(url)?.[1] ?? url.slice(url.lastIndexOf('/') + 1);
  return { group: 'gateway', file: own, name: placed };
}
