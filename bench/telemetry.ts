import { setTimeout as wait } from 'node:timers/promises';
import { at, type Caller, makeCaller, parseJson } from './caller.ts';
import { telemetryCall } from './cases.ts';
import { startChild, treeCpuSeconds } from './child.ts';
import { connectUpstreams, type Upstreams } from './contenders.ts';
import { type Spread, spread } from './figures.ts';
import { type Gateway, type GatewayStart, readPort, startGateway } from './gateway.ts';
import type { Plan } from './options.ts';
import { type LoadPlan, load } from './programs.ts';
import { planLoad, rotate, warmUp } from './requests.ts';

/** Telemetry of a gateway; `absent` is the gateway of another commit, which may not support it. */
export type Telemetry = 'off' | 'exporting' | 'absent';

/** Figures of `tools/call` with this telemetry. */
export interface TelemetryFigures {
  readonly telemetry: Telemetry;
  readonly cpuPerCallUs: Spread;
  /** CPU time relative to `off` in the same round; for `absent`, CPU time of `off` relative to it. */
  readonly ratio: Spread | undefined;
  readonly perSecond: Spread;
  /** Received server spans, all spans, and bytes, per call; undefined without export. */
  readonly arrived: { readonly calls: number; readonly spans: number; readonly bytes: number } | undefined;
}

interface Lane {
  readonly telemetry: Telemetry;
  readonly gateway: Gateway;
  readonly load: LoadPlan;
  /** Calls since the start of the gateway. */
  calls: number;
  /** CPU time at the start of each measurement, and its number of calls. */
  readonly turns: { readonly cpu: number; readonly calls: number }[];
  readonly perSecond: number[];
}

/**
 * Delay of each connection between calls, for an equal rate below saturation in every lane. Otherwise a slower gateway
 * would handle fewer calls per wakeup, and the receiver would compete for CPU time.
 */
const pauseMs = 10;

/** Maximum delay of a batch of spans (OTEL_BSP_SCHEDULE_DELAY), plus one second. */
const batchMs = 6_000;

/**
 * Measures the same calls with telemetry off and exporting, and with another commit, in turn in every round. CPU time is
 * counted until the start of the next measurement, to include delayed exports.
 *
 * @param entry file that starts the gateway of the other commit
 * @param log called after every measurement
 * @throws Error if no span of a call is received
 */
export async function measureTelemetry(
  start: GatewayStart,
  upstreams: Upstreams,
  entry: string | undefined,
  plan: Plan,
  folder: string,
  log: (line: string) => void,
): Promise<TelemetryFigures[]> {
  await using owned = new AsyncDisposableStack();
  using caller = makeCaller();
  const receiver = startChild('OTLP receiver', `${folder}/otlp.log`, process.execPath, [
    `${import.meta.dirname}/otlp-receiver.ts`,
  ]);
  owned.use(receiver);
  const collector = new URL(`http://127.0.0.1:${await readPort(receiver)}`);
  const lanes: Lane[] = [];
  for (const telemetry of entry === undefined
    ? (['off', 'exporting'] as const)
    : (['off', 'exporting', 'absent'] as const)) {
    const gateway = await startGateway({
      ...start,
      entry: telemetry === 'absent' && entry !== undefined ? entry : start.entry,
      registryFolder: `${folder}/registry-telemetry-${telemetry}`,
      outputFile: `${folder}/telemetry-${telemetry}.log`,
      variables: telemetry === 'exporting' ? { OTEL_EXPORTER_OTLP_ENDPOINT: collector.origin } : {},
    });
    owned.use(gateway);
    await connectUpstreams(gateway, upstreams);
    const url = gateway.endpoint(telemetryCall.upstream);
    const planned = await planLoad(caller, telemetryCall, url, `${folder}/load.lua`, gateway.child.pid);
    lanes.push({ telemetry, gateway, load: { ...planned, pauseMs }, calls: 1, turns: [], perSecond: [] });
  }
  const loaded = async (lane: Lane, seconds: number) => {
    const { gateway, load: planned } = lane;
    const result = await load(planned, seconds);
    gateway.child.clearOutput();
    lane.calls += result.requests;
    return result;
  };
  for (const lane of lanes) await warmUp(plan, (seconds) => loaded(lane, seconds));
  await requireSpans(caller, collector, lanes);
  for (let round = 0; round < plan.telemetryRounds; round++) {
    for (const lane of rotate(lanes, round)) {
      const cpu = treeCpuSeconds(lane.gateway.child.pid);
      const { requests, perSecond } = await loaded(lane, plan.loadSeconds);
      lane.turns.push({ cpu, calls: requests });
      lane.perSecond.push(perSecond);
      const where = `telemetry ${lane.telemetry}, round ${round + 1} of ${plan.telemetryRounds}`;
      log(
        `${where}: ${(((treeCpuSeconds(lane.gateway.child.pid) - cpu) * 1e6) / requests).toFixed(1)} µs of CPU per call`,
      );
    }
  }
  await wait(batchMs);
  for (const { gateway, turns } of lanes) turns.push({ cpu: treeCpuSeconds(gateway.child.pid), calls: 0 });
  // Stopping flushes the remaining spans.
  for (const { gateway } of lanes) await gateway.child.stop(10_000);
  return await Promise.all(lanes.map((lane) => figures(caller, collector, lane, lanes)));
}

/** Verifies after the warm-up that spans are exported. */
async function requireSpans(caller: Caller, collector: URL, lanes: readonly Lane[]): Promise<void> {
  const exporting = lanes.find(({ telemetry }) => telemetry === 'exporting');
  if (exporting === undefined) return;
  const { gateway, calls } = exporting;
  try {
    await gateway.child.waitFor('a span of a tools/call arrived', batchMs, async () => {
      return (await received(caller, collector)).calls > 0 || undefined;
    });
  } catch (error) {
    const { text } = await received(caller, collector);
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`telemetry, after ${calls} calls: ${reason}\nreceived: ${text}`, { cause: error });
  }
}

/** Returns the received totals; calls are server spans named after the method. */
async function received(caller: Caller, collector: URL) {
  const { body } = await caller.get(collector);
  const value = parseJson(body);
  const names = at(value, 'names');
  const calls = Object.entries(typeof names === 'object' && names !== null ? names : {})
    .filter(([name]) => name.startsWith('server tools/call'))
    .reduce((sum, [, count]) => sum + Number(count), 0);
  if (at(value, 'refused') !== 0) throw new Error(`the receiver rejected exports: ${body}`);
  return { calls, spans: Number(at(value, 'spans')), bytes: Number(at(value, 'bytes')), text: body };
}

async function figures(caller: Caller, collector: URL, lane: Lane, lanes: readonly Lane[]): Promise<TelemetryFigures> {
  const { telemetry, calls, perSecond } = lane;
  const costs = perCall(lane);
  const off = lanes.find((each) => each.telemetry === 'off');
  const offCosts = off === undefined ? [] : perCall(off);
  const against = (cost: number, round: number) => {
    const other = offCosts[round] ?? Number.NaN;
    return telemetry === 'absent' ? other / cost : cost / other;
  };
  const sent = telemetry === 'exporting' ? await received(caller, collector) : undefined;
  return {
    telemetry,
    cpuPerCallUs: spread(costs),
    ratio: telemetry === 'off' ? undefined : spread(costs.map(against)),
    perSecond: spread(perSecond),
    arrived: sent && { calls: sent.calls / calls, spans: sent.spans / calls, bytes: sent.bytes / calls },
  };
}

/** Returns the CPU time per call of each measurement, in microseconds. */
function perCall({ turns }: Lane): number[] {
  return turns
    .slice(0, -1)
    .map(({ cpu, calls }, round) => (((turns[round + 1]?.cpu ?? Number.NaN) - cpu) * 1e6) / calls);
}
