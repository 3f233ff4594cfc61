import { at, parseJson } from './caller.ts';
import { startChild } from './child.ts';
import type { ReplicaBench } from './replica-bench.ts';
import type { SimulationResult } from './simulated-replicas.ts';

/** Figures of simulated replicas. */
export interface FleetFigures extends SimulationResult {
  readonly replicas: number;
}

/** Starts as many simulated replicas as the plan has in one process, on a database of their own, and measures PostgreSQL. */
export async function measureFleet({ postgres, plan, folder, log }: ReplicaBench): Promise<FleetFigures[]> {
  const figures: FleetFigures[] = [];
  for (const replicas of plan.replicaFleets) {
    const settings = {
      database: await postgres.createDatabase(),
      server: postgres.pid,
      replicas,
      idle: plan.replicaIdleSeconds,
      changes: plan.replicaFleetChanges,
    };
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const file = `${import.meta.dirname}/simulated-replicas.ts`;
    await using child = startChild('simulated replicas', `${folder}/fleet.log`, process.execPath, [file, ...args]);
    await child.waitForExit(240_000);
    const result = parseJson(child.output().trim().split('\n').at(-1) ?? '');
    const figure = (name: keyof SimulationResult) => {
      const value = at(result, name);
      if (typeof value !== 'number') throw new Error(`simulated replicas: ${child.output().slice(-2_000)}`);
      return value;
    };
    const found: FleetFigures = {
      replicas,
      connections: figure('connections'),
      idleTransactions: figure('idleTransactions'),
      idleCpuMs: figure('idleCpuMs'),
      changeTransactions: figure('changeTransactions'),
      changeCpuMs: figure('changeCpuMs'),
      appliedP50Ms: figure('appliedP50Ms'),
      appliedP99Ms: figure('appliedP99Ms'),
      confirmedCpuMs: figure('confirmedCpuMs'),
      confirmedP50Ms: figure('confirmedP50Ms'),
      confirmedP99Ms: figure('confirmedP99Ms'),
    };
    const { connections, idleCpuMs, changeCpuMs } = found;
    log(`replicas: ${replicas} simulated ones have ${connections} connections and cost ${idleCpuMs.toFixed(0)} ms/s`);
    log(`replicas: a change for ${replicas} costs ${changeCpuMs.toFixed(1)} ms of PostgreSQL`);
    figures.push(found);
  }
  return figures;
}
