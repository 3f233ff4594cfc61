import { makeCaller } from './caller.ts';
import { type Exchange, pairings } from './cases.ts';
import { connectUpstreams, type Upstreams } from './contenders.ts';
import { type Spread, spread } from './figures.ts';
import { type GatewayStart, startGateway } from './gateway.ts';
import type { Plan } from './options.ts';
import { type LoadPlan, load } from './programs.ts';
import { planLoad, rotate, warmUp } from './requests.ts';

/** Figures of a pairing of eras. */
export interface PairingFigures {
  readonly pairing: Exchange;
  readonly cpuPerCallUs: Spread;
  /** CPU time relative to the pairing within the client's era in the same round; undefined for that pairing. */
  readonly against: Spread | undefined;
  readonly perSecond: Spread;
}

interface PairingLane {
  readonly pairing: Exchange;
  readonly load: LoadPlan;
  readonly cpuPerCallUs: number[];
  readonly perSecond: number[];
}

/**
 * Measures all pairings in turn in every round, on one gateway.
 *
 * @param log called after every measurement
 */
export async function measurePairings(
  start: GatewayStart,
  upstreams: Upstreams,
  plan: Plan,
  folder: string,
  log: (line: string) => void,
): Promise<PairingFigures[]> {
  await using gateway = await startGateway({ ...start, registryFolder: `${folder}/registry-pairings` });
  await connectUpstreams(gateway, upstreams);
  using caller = makeCaller();
  const lanes: PairingLane[] = [];
  for (const pairing of pairings) {
    const url = gateway.endpoint(pairing.upstream);
    const planned = await planLoad(caller, pairing, url, `${folder}/load.lua`, gateway.child.pid);
    lanes.push({ pairing, load: planned, cpuPerCallUs: [], perSecond: [] });
  }
  const loaded = async ({ load: planned }: PairingLane, seconds: number) => {
    const result = await load(planned, seconds);
    gateway.child.clearOutput();
    return result;
  };
  for (const lane of lanes) await warmUp(plan, (seconds) => loaded(lane, seconds));
  for (let round = 0; round < plan.pairingRounds; round++) {
    for (const lane of rotate(lanes, round)) {
      const { perSecond, perCpuSecond } = await loaded(lane, plan.loadSeconds);
      lane.perSecond.push(perSecond);
      lane.cpuPerCallUs.push(1e6 / perCpuSecond);
      const where = `${lane.pairing.name}, round ${round + 1} of ${plan.pairingRounds}`;
      log(`${where}: ${(1e6 / perCpuSecond).toFixed(1)} µs of CPU per call`);
    }
  }
  return lanes.map((lane) => pairingFigures(lane, lanes));
}

function pairingFigures(
  { pairing, cpuPerCallUs, perSecond }: PairingLane,
  lanes: readonly PairingLane[],
): PairingFigures {
  const plain = lanes.find(({ pairing: { era, upstream } }) => era === pairing.era && upstream === era);
  const ratios = cpuPerCallUs.map((cost, round) => cost / (plain?.cpuPerCallUs[round] ?? Number.NaN));
  return {
    pairing,
    cpuPerCallUs: spread(cpuPerCallUs),
    against: pairing.era === pairing.upstream ? undefined : spread(ratios),
    perSecond: spread(perSecond),
  };
}
