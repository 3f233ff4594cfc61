import { startPostgres } from '../packages/server/testing/postgres.ts';
import { replicaEnvironment } from '../test/fixtures/replicas.ts';
import type { Upstreams } from './contenders.ts';
import { type GatewayStart, startGateway } from './gateway.ts';
import type { Options, ReplicaMeasurement } from './options.ts';
import type { ReplicaBench } from './replica-bench.ts';
import { type CostFigures, measureCost, measureProcesses, type ProcessFigures } from './replica-cost.ts';
import { type FleetFigures, measureFleet } from './replica-fleet.ts';
import { measureStart, type StartFigures } from './replica-start.ts';
import { measureWrites, type WriteFigures } from './replica-writes.ts';

/** Figures of the measurements that ran. */
export interface ReplicaFigures {
  readonly cost: readonly CostFigures[];
  readonly processes: readonly ProcessFigures[];
  readonly writes: WriteFigures | undefined;
  readonly fleet: readonly FleetFigures[];
  readonly start: StartFigures | undefined;
}

/** Connections that PostgreSQL permits: the simulated replicas have five each. */
const CONNECTIONS = 700;

/**
 * Measures replicas on a PostgreSQL server of their own, which writes to disk as one in production does.
 *
 * @param log called after every measurement
 */
export async function measureReplicas(
  { plan, replicas }: Options,
  start: GatewayStart,
  upstreams: Upstreams,
  folder: string,
  log: (line: string) => void,
): Promise<ReplicaFigures> {
  await using postgres = await startPostgres({ durable: true, connections: CONNECTIONS });
  const filesOf = (name: string) => ({
    registryFolder: `${folder}/registry-${name}`,
    outputFile: `${folder}/${name}.log`,
  });
  const bench: ReplicaBench = {
    postgres,
    upstreams,
    plan,
    folder,
    log,
    startAlone: (name) => startGateway({ ...start, ...filesOf(name) }),
    startReplica: (name, database, { variables, ...others } = {}) =>
      startGateway({
        ...start,
        ...filesOf(name),
        ...others,
        variables: { ...replicaEnvironment(database), SERVICE_PEER_LISTEN: '127.0.0.1:0', ...variables },
      }),
  };
  const has = (measurement: ReplicaMeasurement) => replicas.has(measurement);
  return {
    cost: has('cost') ? await measureCost(bench) : [],
    processes: has('processes') ? await measureProcesses(bench) : [],
    writes: has('writes') ? await measureWrites(bench) : undefined,
    fleet: has('fleet') ? await measureFleet(bench) : [],
    start: has('start') ? await measureStart(bench) : undefined,
  };
}
