import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { type Bench, startNamed } from './bench.ts';
import { at, parseJson } from './caller.ts';
import type { GatewayCase } from './compare.ts';
import { table } from './figures.ts';

/** Measurements of a profile. */
const MEASUREMENTS = 3;

/**
 * Runs a case with `--cpu-prof` and returns the self time of the gateway under load, without idle time.
 *
 * @throws Error if the gateway wrote no profile
 */
export async function profileCase(bench: Bench, { name, title, prepare }: GatewayCase): Promise<string> {
  const profiles = `${bench.folder}/profile-${name}`;
  mkdirSync(profiles);
  // Most functions of a request are shorter than the default interval of 1 ms.
  const flags = ['--cpu-prof', `--cpu-prof-dir=${profiles}`, '--cpu-prof-interval=250'];
  await using owned = new AsyncDisposableStack();
  const { start, connect } = await prepare(bench, owned);
  const nodeFlags = [...bench.options.nodeFlags, ...flags];
  const gateway = owned.use(await startNamed(bench, name, { ...start, nodeFlags }));
  const workload = await connect(gateway);
  await workload.warmUp();
  // The profiler uses the same monotonic clock, in microseconds.
  const from = Number(process.hrtime.bigint() / 1000n);
  for (let measured = 0; measured < MEASUREMENTS; measured++) await workload.measure();
  const to = Number(process.hrtime.bigint() / 1000n);
  await gateway.child.stop(40_000);
  const file = readdirSync(profiles).find((each) => each.endsWith('.cpuprofile'));
  if (file === undefined) throw new Error(`the gateway wrote no profile to ${profiles}`);
  const { groups, functions } = summarize(parseJson(readFileSync(`${profiles}/${file}`, 'utf8')), from, to);
  const components = groups.map((cells) => cells.join(' ')).join(', ');
  return `**${title}**: ${components}\n\n${table(['function', 'share'], functions)}`;
}

/** Sums up the samples of a period: the shares of components and of the largest functions. */
function summarize(profile: unknown, from: number, to: number) {
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
  const shares = (sums: ReadonlyMap<string, number>) =>
    [...sums]
      .sort(([, a], [, b]) => b - a)
      .slice(0, 10)
      .map(([name, time]) => [name, `${((time / busy) * 100).toFixed(1)} %`]);
  return { groups: shares(groups), functions: shares(functions) };
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
