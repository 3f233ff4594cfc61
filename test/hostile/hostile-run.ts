import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { toolchains } from '../../packages/server/src/policy/sandbox/fixtures/ordinary-actions.ts';
import type { CurrentProcess } from '../fixtures/own-process.ts';
import type { HostileCase } from './hostile-case.ts';
import { startHostilePeers } from './hostile-peers.ts';
import { type Latencies, LatencyProbe } from './latency-probe.ts';
import { type MeasuredGateway, startMeasuredGateway } from './measured-gateway.ts';
import { startReader } from './reader.ts';

/** Measurements of one case. */
export interface CaseResult {
  readonly name: string;
  readonly group: string;
  /** Longest turn of the event loop, in milliseconds of CPU time of the main thread. */
  readonly longestMs: number;
  /** Maximum RSS of the service during the case, and before it, in bytes. */
  readonly peakRss: number;
  readonly rssBefore: number;
  /** Latencies beside the service, and beside a process that only reads. */
  readonly latencies: Latencies;
  readonly readerLatencies: Latencies | undefined;
  /** Summary of the response, or the error. */
  readonly outcome: string;
  readonly isFailed: boolean;
}

/** A gateway with hostile peers on all sides. */
export interface HostileRun extends AsyncDisposable {
  readonly measured: MeasuredGateway;
  /** Sends a case, first to the gateway, then to a process that only reads. */
  readonly measure: (hostile: HostileCase) => Promise<CaseResult>;
  /** Sends a case to the gateway only, and measures its turns. */
  readonly measureTurns: (hostile: HostileCase) => Promise<Pick<CaseResult, 'longestMs' | 'outcome' | 'isFailed'>>;
}

/** Namespaces of the two upstreams; that of the second one's other forward has an evaluator. */
const NAMESPACES = { legacy: 'legacy', modern: 'modern', evaluated: 'modern' } as const;

/** Starts it, for cases of this seed. Without `compare`, they are sent to the gateway only. */
export async function startHostileRun(
  seed: number,
  compare: boolean,
  nodeArgs: readonly string[] = [],
): Promise<HostileRun> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-hostile-'));
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const peers = await startHostilePeers(seed);
  stack.defer(() => peers.close());
  const { upstreams, llm, grpcPort } = peers.addresses;
  const file = join(folder, 'service.json');
  await writeFile(file, JSON.stringify({ llm_connections: [{ name: 'llm', model: 'scripted', url: llm }] }));
  await writeFile(join(folder, 'action.wasm'), await toolchains.wat());
  const measured = stack.use(
    await startMeasuredGateway({
      args: ['--service-config', file],
      env: { SERVICE_INFERENCE_UPSTREAM: new URL(llm).origin, SERVICE_CLASSIC_URL: new URL(llm).origin },
      nodeArgs,
    }),
  );
  const { gateway } = measured;
  for (const [namespace, era] of Object.entries(NAMESPACES)) {
    await gateway.forward(namespace, upstreams[era], namespace);
  }
  await registerServices(measured, grpcPort);
  const management = `http://${gateway.management()}`;
  const mcp = gateway.url().replace('/default/mcp', '');
  const inference = `http://${gateway.logs.find(({ msg }) => msg === 'listening')?.inference}`;
  const probe = new LatencyProbe(gateway.url(), `${management}/healthz`);
  stack.defer(() => probe.close());
  const reader = compare ? await startReader({ legacy: upstreams.legacy, modern: upstreams.modern }) : undefined;
  if (reader) stack.defer(() => reader.close());
  const readerProbe = reader && new LatencyProbe(`${reader.url}/default/mcp`, reader.url);
  if (readerProbe) stack.defer(() => readerProbe.close());
  // The first requests compile what all use.
  for (const namespace of Object.keys(NAMESPACES)) await warmUp(gateway.url(namespace));
  const owned = stack.move();
  return {
    measured,
    async measureTurns({ name }) {
      await measured.turns();
      const sent = await sendCase(peers, { name, mcp, management, inference });
      const { longestMs } = await measured.turns();
      return { longestMs, ...sent };
    },
    async measure({ name, group, isComparable }) {
      await measured.peakRss();
      await measured.turns();
      await probe.take();
      const rssBefore = await measured.peakRss();
      const sent = await sendCase(peers, { name, mcp, management, inference });
      const { longestMs } = await measured.turns();
      const peakRss = await measured.peakRss();
      const latencies = await probe.take();
      let readerLatencies: Latencies | undefined;
      if (isComparable && reader && readerProbe) {
        await readerProbe.take();
        await sendCase(peers, { name, mcp: reader.url });
        readerLatencies = await readerProbe.take();
      }
      return { name, group, longestMs, peakRss, rssBefore, latencies, readerLatencies, ...sent };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function sendCase(peers: CurrentProcess, argument: object): Promise<Pick<CaseResult, 'outcome' | 'isFailed'>> {
  try {
    return { outcome: String(await peers.request('send', argument)), isFailed: false };
  } catch (error) {
    return { outcome: error instanceof Error ? error.message : String(error), isFailed: true };
  }
}

/** Registers the capability service, its tools, and an evaluator. */
async function registerServices({ gateway }: MeasuredGateway, grpcPort: number): Promise<void> {
  const create = async (path: string, body: object): Promise<void> => {
    const { status, body: answer } = await gateway.api('POST', `/api/v1/${path}`, body);
    if (status !== 201) throw new Error(`POST ${path}: ${status} ${JSON.stringify(answer)}`);
  };
  const address = { host: '127.0.0.1', port: grpcPort };
  const code = { serviceType: 'code-execution-engine', serviceSubType: 'camel', languageName: 'java' };
  await create('services', { name: 'worker', serviceType: 'multi-capability', ...address });
  await create('services', { name: 'runner', ...code, ...address });
  const schema = { description: '', input_schema: { type: 'object' } };
  await create('tools', { name: 'work', toolType: 'worker', uri: 'work://', ...schema });
  await create('tools', { name: 'run', toolType: 'mcp-forward', uri: 'code-execution-engine://camel/java', ...schema });
  const evaluator = {
    name: 'gate',
    trigger: { method: 'tools/call', namespace: 'evaluated' },
    llm: { operation: 'classify', prompt: 'Classify the request.', connection: 'llm' },
    processor: { path: 'action.wasm' },
    on_error: 'block',
  };
  const { status, body } = await gateway.api('PUT', '/api/v1/evaluators', { evaluators: [evaluator] });
  if (status !== 200 || JSON.stringify(body).includes('WASM'))
    throw new Error(`PUT evaluators: ${JSON.stringify(body)}`);
}

async function warmUp(url: string): Promise<void> {
  for (let round = 0; round < 20; round++) {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    });
    await response.arrayBuffer();
  }
}
