import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { at, type Caller, makeCaller, parseJson } from './caller.ts';
import type { BridgeCase, Exchange, InferenceCase, StreamCase } from './cases.ts';
import { type Gateway, type GatewayStart, startGateway } from './gateway.ts';
import { busyCompletions } from './inference.ts';
import { bridged } from './messages.ts';
import type { Plan } from './options.ts';
import { load } from './programs.ts';
import { caseMessages, checkAnswer, warmUp } from './requests.ts';
import { busyStreams } from './streams.ts';

/** A share of the busy time, 0 to 1, and whose it is. */
export interface Share {
  readonly name: string;
  readonly share: number;
}

/** What can be profiled. */
export type ProfiledCase = Exchange | StreamCase | BridgeCase | InferenceCase;

/** Where the gateway's time went in one case, by self time; idle time is left out. */
export interface Profile {
  readonly case: ProfiledCase;
  readonly groups: readonly Share[];
  readonly files: readonly Share[];
  readonly functions: readonly Share[];
}

/**
 * Runs one case against a gateway under `--cpu-prof` and sums what the samples during the load show.
 *
 * @param seconds length of the load that is sampled, after a warm-up
 * @param connect registers what the case calls in the started gateway
 * @throws Error when the gateway left no profile
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
  // The default interval of 1 ms is longer than most of the functions of a request.
  const flags = ['--cpu-prof', `--cpu-prof-dir=${profiles}`, '--cpu-prof-interval=250'];
  await using gateway = await startGateway({ ...start, nodeFlags: [...start.nodeFlags, ...flags] });
  await connect(gateway);
  using caller = makeCaller();
  const loaded = await warm(caller, measured, gateway, plan, folder);
  // The profiler's clock and this one are the same monotonic clock, in microseconds there.
  const from = Number(process.hrtime.bigint() / 1000n);
  await loaded(seconds);
  const to = Number(process.hrtime.bigint() / 1000n);
  await gateway.child.stop(40_000);
  const file = readdirSync(profiles).find((name) => name.endsWith('.cpuprofile'));
  if (file === undefined) throw new Error(`the gateway left no profile in ${profiles}; did it end by itself?`);
  return summarise(measured, parseJson(readFileSync(`${profiles}/${file}`, 'utf8')), from, to);
}

/** Warms the gateway up for a case; returns what loads it. */
async function warm(caller: Caller, measured: ProfiledCase, gateway: Gateway, plan: Plan, folder: string) {
  if (measured.method === 'stream') {
    return warmStreams(await busyStreams(caller, measured, gateway.endpoint(measured.era), folder), plan);
  }
  if (measured.method === 'completion') return warmStreams(busyCompletions(gateway.completions, folder), plan);
  const namespace = measured.method === 'bridge' ? bridged.namespace : measured.upstream;
  return warmRequests(caller, measured, gateway.endpoint(namespace), plan, folder);
}

/** Warms the gateway up for a case of requests; returns what loads it. */
async function warmRequests(caller: Caller, measured: Exchange | BridgeCase, url: URL, plan: Plan, folder: string) {
  const messages = await caseMessages(caller, measured, url);
  const bytes = messages[0] === undefined ? 0 : await checkAnswer(caller, measured, url, messages[0]);
  const loaded = (seconds: number) => load(`${folder}/profile.lua`, url, messages, seconds, bytes);
  await warmUp(plan, loaded);
  return loaded;
}

/** The same for event streams. */
async function warmStreams(loaded: (seconds: number) => Promise<unknown>, plan: Plan) {
  await loaded(plan.streamWarmUpSeconds);
  return loaded;
}

function summarise(measured: ProfiledCase, profile: unknown, from: number, to: number): Profile {
  const frames = new Map<number, { group: string; file: string; name: string }>();
  for (const node of list(at(profile, 'nodes'))) frames.set(Number(at(node, 'id')), frame(at(node, 'callFrame')));
  const deltas = list(at(profile, 'timeDeltas')).map(Number);
  const groups = new Map<string, number>();
  const files = new Map<string, number>();
  const functions = new Map<string, number>();
  const add = (sums: Map<string, number>, name: string, time: number) => sums.set(name, (sums.get(name) ?? 0) + time);
  let busy = 0;
  let clock = Number(at(profile, 'startTime'));
  for (const [index, id] of list(at(profile, 'samples')).entries()) {
    clock += deltas[index] ?? 0;
    // A sample stands for the time until the next one.
    const time = deltas[index + 1] ?? 0;
    const found = frames.get(Number(id));
    if (found === undefined || found.name === '(idle)' || clock < from || clock > to) continue;
    busy += time;
    add(groups, found.group, time);
    add(files, found.file, time);
    add(
      functions,
      found.file === found.group ? `${found.name} (${found.group})` : `${found.name} (${found.file})`,
      time,
    );
  }
  const shares = (sums: Map<string, number>, count: number) =>
    [...sums]
      .map(([name, time]) => ({ name, share: time / busy }))
      .sort((a, b) => b.share - a.share)
      .slice(0, count);
  return { case: measured, groups: shares(groups, 10), files: shares(files, 12), functions: shares(functions, 25) };
}

const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

const native = 'native code and system calls';

/** Says to whom a frame belongs. Functions of the engine and of Node.js that are written in C++ have no file. */
function frame(callFrame: unknown): { group: string; file: string; name: string } {
  const name = String(at(callFrame, 'functionName')) || '(anonymous)';
  const url = String(at(callFrame, 'url'));
  if (name === '(garbage collector)') return { group: 'garbage collection', file: 'garbage collection', name };
  if (url === '') return { group: native, file: native, name };
  if (url.startsWith('node:')) return { group: "Node's own JavaScript", file: url, name };
  const placed = `${name}:${Number(at(callFrame, 'lineNumber')) + 1}`;
  const dependency = /\/node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*\/node_modules\/)(.*)$/.exec(url);
  if (dependency?.[1] !== undefined) {
    return { group: dependency[1], file: `${dependency[1]}/${dependency[2]}`, name: placed };
  }
  const own = /\/packages\/[^/]+\/src\/(.*)$/.exec(url)?.[1] ?? url.slice(url.lastIndexOf('/') + 1);
  return { group: 'gateway', file: own, name: placed };
}
