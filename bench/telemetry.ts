import { setTimeout as wait } from 'node:timers/promises';
import { at, type Caller, makeCaller, parseJson } from './caller.ts';
import { telemetryCall } from './cases.ts';
import { cpuSeconds, startChild } from './child.ts';
import { type Spread, spread } from './figures.ts';
import {
  connectUpstreams,
  type Gateway,
  type GatewayStart,
  readPort,
  startGateway,
  type Upstreams,
} from './gateway.ts';
import type { Message } from './messages.ts';
import type { Plan } from './options.ts';
import { load } from './programs.ts';
import { caseMessages, checkAnswer, rotate, warmUp } from './requests.ts';

/** What a gateway does with telemetry; `absent` is one of a source that may know nothing of it. */
export type Telemetry = 'off' | 'exporting' | 'absent';

/** What a `tools/call` costs a gateway with telemetry as it is there. */
export interface TelemetryFigures {
  readonly telemetry: Telemetry;
  readonly cpuPerCallUs: Spread;
  /** That, against telemetry off in the same round; of `absent` the other way round: what off costs against it. */
  readonly ratio: Spread | undefined;
  readonly perSecond: Spread;
  /** Spans of calls that arrived, and of all kinds, both for each call; undefined where nothing is exported. */
  readonly arrived: { readonly calls: number; readonly spans: number; readonly bytes: number } | undefined;
}

interface Lane {
  readonly telemetry: Telemetry;
  readonly gateway: Gateway;
  readonly url: URL;
  readonly messages: readonly Message[];
  readonly answerBytes: number;
  /** Calls since it was started. */
  calls: number;
  /** CPU time that it had used, and its calls in that turn, at the beginning of each. */
  readonly turns: { readonly cpu: number; readonly calls: number }[];
  readonly perSecond: number[];
}

/**
 * What each connection waits between two calls: the same calls per second in every lane, and fewer than the machine can
 * take. Else whoever costs more has fewer calls to share its wakings with, and who receives the spans takes its time.
 */
const pauseMs = 10;

/** A batch of spans waits so long at most before it is sent (OTEL_BSP_SCHEDULE_DELAY), with a second to send it. */
const batchMs = 6_000;

/**
 * Measures the same calls with telemetry off and exporting, and by another source, in turn in every round. CPU time
 * counts from the beginning of a turn to that of the next one, so that what is exported after it counts too.
 *
 * @param entry the other source's; undefined for none
 * @param log called after every measurement
 * @throws Error when not a single span of a call has arrived
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
    const messages = await caseMessages(caller, telemetryCall, url);
    let answerBytes = 0;
    for (const message of messages.slice(0, 1)) answerBytes = await checkAnswer(caller, telemetryCall, url, message);
    lanes.push({ telemetry, gateway, url, messages, answerBytes, calls: 1, turns: [], perSecond: [] });
  }
  const loaded = async (lane: Lane, seconds: number) => {
    const { gateway, url, messages, answerBytes } = lane;
    const result = await load(
      `${folder}/telemetry.lua`,
      url,
      messages,
      seconds,
      answerBytes,
      gateway.child.pid,
      pauseMs,
    );
    gateway.child.clearOutput();
    lane.calls += result.requests;
    return result;
  };
  for (const lane of lanes) await warmUp(plan, (seconds) => loaded(lane, seconds));
  await requireSpans(caller, collector, lanes);
  for (let round = 0; round < plan.telemetryRounds; round++) {
    for (const lane of rotate(lanes, round)) {
      const cpu = cpuSeconds(lane.gateway.child.pid);
      const { requests, perSecond } = await loaded(lane, plan.loadSeconds);
      lane.turns.push({ cpu, calls: requests });
      lane.perSecond.push(perSecond);
      const where = `telemetry ${lane.telemetry}, round ${round + 1} of ${plan.telemetryRounds}`;
      log(`${where}: ${(((cpuSeconds(lane.gateway.child.pid) - cpu) * 1e6) / requests).toFixed(1)} µs of CPU per call`);
    }
  }
  await wait(batchMs);
  for (const { gateway, turns } of lanes) turns.push({ cpu: cpuSeconds(gateway.child.pid), calls: 0 });
  // What still waits to be sent is sent at a stop.
  for (const { gateway } of lanes) await gateway.child.stop(10_000);
  return await Promise.all(lanes.map((lane) => figures(caller, collector, lane, lanes)));
}

/** After the warm-up some batch must have arrived, or telemetry is not exported and what follows would say nothing. */
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
    throw new Error(`telemetry, after ${calls} calls: ${reason}\nthe receiver has ${text}`, { cause: error });
  }
}

/** Spans of calls are those of kind server that are named for the method. */
async function received(caller: Caller, collector: URL) {
  const { body } = await caller.get(collector);
  const value = parseJson(body);
  const names = at(value, 'names');
  const calls = Object.entries(typeof names === 'object' && names !== null ? names : {})
    .filter(([name]) => name.startsWith('server tools/call'))
    .reduce((sum, [, count]) => sum + Number(count), 0);
  if (at(value, 'refused') !== 0) throw new Error(`the receiver could not take all that was exported: ${body}`);
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

/** CPU time per call of each turn, in microseconds. */
function perCall({ turns }: Lane): number[] {
  return turns
    .slice(0, -1)
    .map(({ cpu, calls }, round) => (((turns[round + 1]?.cpu ?? Number.NaN) - cpu) * 1e6) / calls);
}
