import { at, type Caller, makeCaller, parseJson } from './caller.ts';
import { type BridgeCase, bridgeCases } from './cases.ts';
import { type Child, cpuSeconds, residentMiB, startChild } from './child.ts';
import { percentile, spread } from './figures.ts';
import { type Gateway, type GatewayStart, readPort, startGateway } from './gateway.ts';
import { bridged, bridgedTool, type Era } from './messages.ts';
import type { Plan } from './options.ts';
import { connections, type Load, load } from './programs.ts';
import { planLoad, rotate, warmUp } from './requests.ts';
import { type CaseFigures, type Row, singleCall } from './rounds.ts';

/** Request to the gRPC client: a number of calls. */
export interface CallBatch {
  /** Era of the MCP clients whose calls are imitated. */
  readonly era: Era;
  readonly calls: number;
  readonly atOnce: number;
}

/** Capability service in a separate process. */
export interface GrpcService extends AsyncDisposable {
  readonly port: number;
  /** Throws if it has rejected a call. */
  check(): void;
}

/** Plain gRPC client in a separate process. */
export interface GrpcClient extends AsyncDisposable {
  readonly child: Child;
  /** Makes calls and returns the milliseconds. Rejects if a reply is not the expected one. */
  run(caller: Caller, stretch: CallBatch): Promise<number>;
}

/** Starts the capability service. */
export async function startGrpcService(folder: string): Promise<GrpcService> {
  const file = `${import.meta.dirname}/grpc-service.ts`;
  const child = startChild('capability service', `${folder}/grpc-service.log`, process.execPath, [file]);
  return {
    port: await readPort(child),
    check() {
      const rejected = /^.*"refused".*$/m.exec(child.output())?.[0];
      if (rejected !== undefined) throw new Error(`capability service: ${rejected}`);
    },
    [Symbol.asyncDispose]: () => child.stop(2_000),
  };
}

/** Starts the gRPC client of a service, with the Node.js flags of the gateway. */
export async function startGrpcClient(
  folder: string,
  service: GrpcService,
  nodeFlags: readonly string[],
): Promise<GrpcClient> {
  const file = `${import.meta.dirname}/grpc-caller.ts`;
  const args = [...nodeFlags, file, '--service', `127.0.0.1:${service.port}`];
  const child = startChild('grpc-js client', `${folder}/grpc-caller.log`, process.execPath, args);
  const url = new URL(`http://127.0.0.1:${await readPort(child)}/`);
  return {
    child,
    async run(caller, stretch) {
      const headers = { 'Content-Type': 'application/json' };
      const { status, body } = await caller.post(url, { headers, body: JSON.stringify(stretch) });
      const ms = at(parseJson(body), 'ms');
      if (status !== 200 || typeof ms !== 'number') throw new Error(`grpc-js client: status ${status}: ${body}`);
      return ms;
    },
    [Symbol.asyncDispose]: () => child.stop(2_000),
  };
}

/** Target with its measurements. */
interface Lane {
  readonly contender: Row['contender'];
  readonly pid: number;
  /** Runs a load measurement. */
  load(): Promise<Load>;
  /** Makes one call and returns its response time in milliseconds. */
  single(): Promise<number>;
  readonly perCpuSecond: number[];
  readonly perSecond: number[];
  readonly times: number[];
}

/**
 * Measures the same calls through the gateway and by the gRPC client, in turn in every round.
 *
 * @param log called after every measurement
 */
export async function measureBridge(
  start: GatewayStart,
  plan: Plan,
  folder: string,
  log: (line: string) => void,
): Promise<CaseFigures[]> {
  await using service = await startGrpcService(folder);
  await using bare = await startGrpcClient(folder, service, start.nodeFlags);
  await using gateway = await startGateway({ ...start, registryFolder: `${folder}/registry-bridge` });
  await connectService(gateway, service);
  using caller = makeCaller();
  const figures: CaseFigures[] = [];
  for (const measured of bridgeCases) {
    const lanes = await openLanes(caller, measured, gateway, bare, plan, folder);
    for (let round = 0; round < plan.rounds; round++) {
      for (const lane of rotate(lanes, round)) {
        const { perSecond, perCpuSecond } = await lane.load();
        service.check();
        lane.perSecond.push(perSecond);
        lane.perCpuSecond.push(perCpuSecond);
        const where = `${measured.name}, round ${round + 1} of ${plan.rounds}, ${lane.contender}`;
        log(`${where}: ${Math.round(perCpuSecond)} per CPU-second`);
      }
      // The first calls use idle connections.
      for (let call = -10; call < plan.singleCalls; call++) {
        for (const lane of rotate(lanes, round)) {
          const elapsed = await lane.single();
          if (call >= 0) lane.times.push(elapsed);
        }
      }
    }
    figures.push({ case: measured, rows: rows(lanes) });
  }
  return figures;
}

/** Registers the tool and its service. */
export async function connectService(gateway: Gateway, { port }: GrpcService): Promise<void> {
  const service = { name: bridged.toolType, serviceType: 'tool-invoker', host: '127.0.0.1', port };
  await gateway.create('services', service);
  await gateway.create('tools', bridgedTool);
}

/** Returns both targets, warmed up with the same number of calls. */
async function openLanes(
  caller: Caller,
  measured: BridgeCase,
  gateway: Gateway,
  bare: GrpcClient,
  plan: Plan,
  folder: string,
): Promise<[bare: Lane, gateway: Lane]> {
  const { era } = measured;
  const url = gateway.endpoint(bridged.namespace);
  const planned = await planLoad(caller, measured, url, `${folder}/load.lua`, gateway.child.pid);
  const empty = () => ({ perCpuSecond: [], perSecond: [], times: [] });

  const throughGateway = async (seconds: number) => {
    const result = await load(planned, seconds);
    gateway.child.clearOutput();
    return result;
  };
  const byBareClient = async (calls: number): Promise<Load> => {
    const before = cpuSeconds(bare.child.pid);
    const ms = await bare.run(caller, { era, calls, atOnce: connections });
    const used = cpuSeconds(bare.child.pid) - before;
    return { requests: calls, perSecond: calls / (ms / 1000), perCpuSecond: calls / used };
  };

  await byBareClient(await warmUp(plan, throughGateway));
  let { requests: calls } = await throughGateway(plan.loadSeconds);
  return [
    {
      contender: 'grpc-js client',
      pid: bare.child.pid,
      load: () => byBareClient(calls),
      single: () => bare.run(caller, { era, calls: 1, atOnce: 1 }),
      ...empty(),
    },
    {
      contender: 'gateway',
      pid: gateway.child.pid,
      load: async () => {
        const result = await throughGateway(plan.loadSeconds);
        calls = result.requests;
        return result;
      },
      single: () => singleCall(caller, planned),
      ...empty(),
    },
  ];
}

function rows([bare, gateway]: readonly [bare: Lane, gateway: Lane]): Row[] {
  return [bare, gateway].map((lane) => {
    const p50Ms = percentile(lane.times, 0.5);
    const ratios = lane.perCpuSecond.map((figure, round) => figure / (bare.perCpuSecond[round] ?? Number.NaN));
    return {
      contender: lane.contender,
      perCpuSecond: spread(lane.perCpuSecond),
      ratio: spread(ratios),
      perSecond: spread(lane.perSecond),
      p50Ms,
      p99Ms: percentile(lane.times, 0.99),
      addedMs: lane === bare ? undefined : p50Ms - percentile(bare.times, 0.5),
      rssMiB: residentMiB(lane.pid),
    };
  });
}
