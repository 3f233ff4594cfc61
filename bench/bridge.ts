import { type Bench, startNamed } from './bench.ts';
import { at, makeCaller, parseJson } from './caller.ts';
import { bridgeCases } from './cases.ts';
import { cpuSeconds, startChild } from './child.ts';
import { type Gateway, readPort } from './gateway.ts';
import { CONNECTIONS, loadWorkload } from './load.ts';
import { bridged, calledTool, type Era, registeredTool } from './messages.ts';
import { planLoad } from './requests.ts';
import { type MeasuredCase, makeLane, measureRounds, type Workload } from './rounds.ts';
import { costTable, type Report } from './tables.ts';
import { gatewayTarget } from './targets.ts';

/** Request to the gRPC client: calls for a time. */
export interface CallBatch {
  /** Era of the MCP clients whose calls are imitated. */
  readonly era: Era;
  readonly seconds: number;
  readonly atOnce: number;
}

/** Capability service in a separate process. */
export interface GrpcService {
  readonly port: number;
  /** Throws if it has rejected a call. */
  check(): void;
}

/** Starts the capability service. */
export async function startGrpcService(folder: string, owned: AsyncDisposableStack): Promise<GrpcService> {
  const file = `${import.meta.dirname}/grpc-service.ts`;
  const child = owned.use(startChild('capability service', `${folder}/grpc-service.log`, process.execPath, [file]));
  return {
    port: await readPort(child),
    check() {
      const rejected = /^.*"refused".*$/m.exec(child.output())?.[0];
      if (rejected !== undefined) throw new Error(`capability service: ${rejected}`);
    },
  };
}

/** Starts the gRPC client of a service, with the Node.js flags of the gateway, and returns the load of its calls by era. */
async function startGrpcClient({ folder, options, plan }: Bench, { port }: GrpcService, owned: AsyncDisposableStack) {
  const file = `${import.meta.dirname}/grpc-caller.ts`;
  const args = [...options.nodeFlags, file, '--service', `127.0.0.1:${port}`];
  const child = owned.use(startChild('grpc-js client', `${folder}/grpc-caller.log`, process.execPath, args));
  const caller = owned.use(makeCaller());
  const url = new URL(`http://127.0.0.1:${await readPort(child)}/`);
  const run = async (batch: CallBatch) => {
    const before = cpuSeconds(child.pid);
    const headers = { 'Content-Type': 'application/json' };
    const { status, body } = await caller.post(url, { headers, body: JSON.stringify(batch) });
    const [calls, ms] = [at(parseJson(body), 'calls'), at(parseJson(body), 'ms')].map(Number);
    if (status !== 200 || !calls || !ms) throw new Error(`grpc-js client: status ${status}: ${body}`);
    return { perSecond: calls / (ms / 1000), cpuUs: ((cpuSeconds(child.pid) - before) * 1e6) / calls };
  };
  return (era: Era): Workload => ({
    warmUp: () => run({ era, seconds: plan.warmUpSeconds / 2, atOnce: CONNECTIONS }),
    measure: () => run({ era, seconds: plan.seconds, atOnce: CONNECTIONS }),
  });
}

/** Measures the same calls by the gRPC client and through the gateway. */
export async function measureBridge(bench: Bench): Promise<Report> {
  const { plan, folder, log } = bench;
  await using owned = new AsyncDisposableStack();
  const service = await startGrpcService(folder, owned);
  const client = await startGrpcClient(bench, service, owned);
  const gateway = owned.use(await startNamed(bench, 'bridge'));
  await connectService(gateway, service);
  const target = gatewayTarget(gateway);
  using caller = makeCaller();
  const cases: MeasuredCase[] = [];
  for (const { title, bound, ...measured } of bridgeCases) {
    const load = await planLoad(caller, { title, bound, ...measured }, target, folder);
    const lanes = [
      makeLane('grpc-js client', client(measured.era)),
      makeLane('gateway', loadWorkload(load, target, plan)),
    ];
    cases.push({ title, bound, lanes });
  }
  await measureRounds(cases, plan, log);
  service.check();
  return {
    block: 'bridge',
    measured: `${plan.rounds} rounds of ${plan.seconds} s`,
    tables: [costTable('CPU µs per call', cases)],
  };
}

/** Registers the tool and its service. */
export async function connectService(gateway: Gateway, { port }: GrpcService): Promise<void> {
  const service = { name: bridged.toolType, serviceType: 'tool-invoker', host: '127.0.0.1', port };
  await gateway.create('services', service);
  await gateway.create('tools', registeredTool(calledTool));
}
