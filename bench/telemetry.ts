import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { type Bench, startNamed } from './bench.ts';
import { at, makeCaller } from './caller.ts';
import { type RequestCase, requestCases } from './cases.ts';
import { treeCpuSeconds } from './child.ts';
import { hundredths, whole } from './figures.ts';
import { load } from './load.ts';
import { planLoad } from './requests.ts';
import { type MeasuredCase, makeLane, measureRounds, type Workload } from './rounds.ts';
import { costTable, type Report } from './tables.ts';
import { connectUpstreams, gatewayTarget } from './targets.ts';

/** Limit of the CPU time of a `tools/call` with telemetry export, relative to without. */
const exportingBound = { limit: 1.3, aim: 1.15 };

/**
 * Delay of each connection between calls, for an equal rate below saturation in every lane. Otherwise a slower gateway
 * would handle fewer calls per wakeup, and the receiver would compete for CPU time.
 */
const pauseMs = 10;
/** Maximum delay of a batch of spans (OTEL_BSP_SCHEDULE_DELAY), plus a second. */
const batchMs = 6_000;

/**
 * Measures the same calls with telemetry off and exporting. CPU time includes that of delayed exports.
 *
 * @throws Error if spans were dropped
 */
export async function measureTelemetry(bench: Bench): Promise<Report> {
  const { plan, folder, log, upstreams } = bench;
  await using owned = new AsyncDisposableStack();
  const receiver = await startReceiver(owned);
  using caller = makeCaller();
  const call = requestCases.find(({ name }) => name === 'call-modern') as RequestCase;
  let exportedCalls = 1;
  const open = async (name: string, variables: Readonly<Record<string, string>>) => {
    const gateway = owned.use(await startNamed(bench, `telemetry-${name}`, { variables }));
    await connectUpstreams(gateway, upstreams);
    const target = gatewayTarget(gateway);
    const planned = { ...(await planLoad(caller, call, target, folder)), pauseMs };
    const measure: Workload['measure'] = async () => {
      const before = treeCpuSeconds(target.pid);
      const { requests, perSecond } = await load(planned, plan.seconds);
      await wait(batchMs);
      gateway.child.clearOutput();
      if (name === 'exporting') exportedCalls += requests;
      return { perSecond, cpuUs: ((treeCpuSeconds(target.pid) - before) * 1e6) / requests };
    };
    const warmUp = async () => {
      for (let time = 0; time < 3; time++) await measure();
    };
    return makeLane(name, { warmUp, measure });
  };
  const lanes = [await open('off', {}), await open('exporting', { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url })];
  const measured: MeasuredCase = { title: call.title, lanes, bound: exportingBound };
  await measureRounds([measured], plan, log);
  const [spans, bytes] = [receiver.calls / exportedCalls, receiver.bytes / exportedCalls];
  if (spans < 0.99) throw new Error(`only ${hundredths(spans)} spans of a tools/call were exported per call`);
  return {
    block: 'telemetry',
    measured: `${plan.rounds} rounds of ${plan.seconds} s, ${whole(bytes)} bytes exported per call`,
    tables: [costTable('CPU µs per call', [measured])],
  };
}

const KIND_FIELD = 0x30;
const KIND_SERVER = 2;

/** Counts exported server spans of calls. */
async function startReceiver(owned: AsyncDisposableStack) {
  const received = { url: '', calls: 0, bytes: 0 };
  const take = async (request: IncomingMessage) => {
    const body = await buffer(request);
    if (request.url !== '/v1/traces') return;
    const plain = request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
    received.bytes += body.length;
    // In protobuf: the length of the name of a span (field 5) and the name, then its kind (field 6).
    const text = plain.toString('latin1');
    for (const { index } of text.matchAll(/\*.tools\/call/gs)) {
      const end = index + 2 + text.charCodeAt(index + 1);
      if (text.charCodeAt(end) === KIND_FIELD && text.charCodeAt(end + 1) === KIND_SERVER) received.calls++;
    }
  };
  const server = createServer((request, response) => {
    // An empty message of protobuf has no bytes.
    void take(request).then(() => response.writeHead(200, { 'Content-Type': 'application/x-protobuf' }).end());
  });
  server.keepAliveTimeout = 0;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  owned.defer(() => void server.close().closeAllConnections());
  received.url = `http://127.0.0.1:${at(server.address(), 'port')}`;
  return received;
}
