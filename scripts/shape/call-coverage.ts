import { Session } from 'node:inspector/promises';
import { relative } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Client } from '@modelcontextprotocol/client';
import { startTestService } from '../../packages/server/testing/service.ts';
import { startDualEraProcess } from '../../test/fixtures/dual-era-process.ts';
import { connect } from '../../test/fixtures/sdk-client.ts';

/** Functions executed by one warm `tools/call`. */
export interface CallCoverage {
  /** Files of the server and of the protocol package in which a function was entered, relative to `packages`. */
  readonly files: readonly string[];
  /** Functions entered in these files, each as `file function`; `(module)` and anonymous functions by their offset. */
  readonly functions: readonly string[];
}

const PACKAGES = fileURLToPath(new URL('../../packages/', import.meta.url));
const COUNTED = /^(?:server|protocol)\/src\//;
const WARM_UP_CALLS = 20;
/** What every one of these calls enters counts: timers of the service may run during one of them. */
const MEASURED_CALLS = 12;
const TOOL = 'echo_arguments';
const DISCOVERY_MS = 20_000;

/**
 * Counts the files and functions that one `tools/call` enters, by V8's precise coverage: official client, service and
 * upstream of the same era, no evaluators, every connection open and every cache filled before.
 */
export async function measureCall(era: 'legacy' | 'modern'): Promise<CallCoverage> {
  const upstream = await startDualEraProcess(era);
  const service = await startTestService();
  try {
    await service.register('forwards', { name: 'upstream', address: upstream.url });
    const client = await connect(service.url(), era);
    await discovered(client.client);
    const call = () => client.callText(TOOL, { text: 'x' });
    for (let calls = 0; calls < WARM_UP_CALLS; calls++) await call();
    const measured: CallCoverage[] = [];
    for (let calls = 0; calls < MEASURED_CALLS; calls++) measured.push(await coverageOf(call));
    await client.close();
    return {
      files: common(measured.map(({ files }) => files)),
      functions: common(measured.map((each) => each.functions)),
    };
  } finally {
    await service.stop(0);
    await upstream.close();
  }
}

/** What is in all of these lists. */
function common([first = [], ...others]: readonly (readonly string[])[]): string[] {
  return first.filter((name) => others.every((list) => list.includes(name)));
}

/** Waits until the tool is listed: discovery runs after the registration. */
async function discovered(client: Client): Promise<void> {
  const deadline = performance.now() + DISCOVERY_MS;
  for (;;) {
    const { tools } = await client.listTools();
    if (tools.some(({ name }) => name === TOOL)) return;
    if (performance.now() > deadline) throw new Error(`the upstream's tool "${TOOL}" was not discovered`);
    await setTimeout(20);
  }
}

async function coverageOf(run: () => Promise<unknown>): Promise<CallCoverage> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  // Taking coverage resets earlier counts.
  await session.post('Profiler.takePreciseCoverage');
  await run();
  const { result } = await session.post('Profiler.takePreciseCoverage');
  session.disconnect();
  const scripts = result.flatMap(({ url, functions }) => {
    if (!url.startsWith('file:')) return [];
    const path = relative(PACKAGES, fileURLToPath(url));
    const entered = functions
      .filter(({ ranges }) => ranges.some(({ count }) => count > 0))
      .map(({ functionName, ranges }) => `${path} ${functionName || `(anonymous at ${ranges[0]?.startOffset})`}`);
    return COUNTED.test(path) && entered.length > 0 ? [{ path, entered }] : [];
  });
  return {
    files: scripts.map(({ path }) => path).sort(),
    functions: scripts.flatMap(({ entered }) => entered).sort(),
  };
}
