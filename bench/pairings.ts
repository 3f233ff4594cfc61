import { makeCaller } from './caller.ts';
import { type Exchange, pairings } from './cases.ts';
import { connectUpstreams, type Upstreams } from './contenders.ts';
import { type GatewayStart, startGateway } from './gateway.ts';
import { load } from './load.ts';
import { caseMessages, checkAnswer, rotated, warmUp } from './measure.ts';
import type { Message } from './messages.ts';
import type { Plan } from './options.ts';
import { type Spread, spread } from './statistics.ts';

/** What a `tools/call` costs the gateway in one pairing of eras. */
export interface PairingFigures {
  readonly pairing: Exchange;
  readonly cpuPerCallUs: Spread;
  /** That, against the pairing in which the same client's upstream is of its own era, in the same round; undefined there. */
  readonly against: Spread | undefined;
  readonly perSecond: Spread;
}

interface Lane {
  readonly pairing: Exchange;
  readonly url: URL;
  readonly messages: readonly Message[];
  readonly answerBytes: number;
  readonly cpuPerCallUs: number[];
  readonly perSecond: number[];
}

/**
 * Measures all pairings on one gateway, which therefore runs the code of all of them, in turn in every round.
 *
 * @param say told after every stretch of load
 */
export async function measurePairings(
  start: GatewayStart,
  upstreams: Upstreams,
  plan: Plan,
  folder: string,
  say: (line: string) => void,
): Promise<PairingFigures[]> {
  await using gateway = await startGateway({ ...start, registryFolder: `${folder}/registry-pairings` });
  await connectUpstreams(gateway, upstreams);
  using caller = makeCaller();
  const lanes: Lane[] = [];
  for (const pairing of pairings) {
    const url = gateway.endpoint(pairing.upstream);
    const messages = await caseMessages(caller, pairing, url);
    let answerBytes = 0;
    for (const message of messages.slice(0, 1)) answerBytes = await checkAnswer(caller, pairing, url, message);
    lanes.push({ pairing, url, messages, answerBytes, cpuPerCallUs: [], perSecond: [] });
  }
  const loaded = async ({ url, messages, answerBytes }: Lane, seconds: number) => {
    const result = await load(`${folder}/pairings.lua`, url, messages, seconds, answerBytes, gateway.child.pid);
    gateway.child.forget();
    return result;
  };
  for (const lane of lanes) await warmUp(plan, (seconds) => loaded(lane, seconds));
  for (let round = 0; round < plan.pairingRounds; round++) {
    for (const lane of rotated(lanes, round)) {
      const { perSecond, perCpuSecond } = await loaded(lane, plan.loadSeconds);
      lane.perSecond.push(perSecond);
      lane.cpuPerCallUs.push(1e6 / perCpuSecond);
      const where = `${lane.pairing.name}, round ${round + 1} of ${plan.pairingRounds}`;
      say(`${where}: ${(1e6 / perCpuSecond).toFixed(1)} µs of CPU per call`);
    }
  }
  return lanes.map((lane) => figures(lane, lanes));
}

function figures({ pairing, cpuPerCallUs, perSecond }: Lane, lanes: readonly Lane[]): PairingFigures {
  const plain = lanes.find(({ pairing: { era, upstream } }) => era === pairing.era && upstream === era);
  const ratios = cpuPerCallUs.map((cost, round) => cost / (plain?.cpuPerCallUs[round] ?? Number.NaN));
  return {
    pairing,
    cpuPerCallUs: spread(cpuPerCallUs),
    against: pairing.era === pairing.upstream ? undefined : spread(ratios),
    perSecond: spread(perSecond),
  };
}
