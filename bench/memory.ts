import { request } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { INSPECTOR_ARGS, ProcessProbe } from '../test/campaign/process-probe.ts';
import { type Bench, startNamed } from './bench.ts';
import { makeCaller, openSession } from './caller.ts';
import { peakMiB, resetPeak, residentMiB } from './child.ts';
import { tenths } from './figures.ts';
import type { Gateway } from './gateway.ts';
import { callMessage, type Message } from './messages.ts';
import type { Report } from './tables.ts';
import { connectUpstreams } from './targets.ts';

/** Responses, one after the other, and how fast they are read. */
const slowReader = { responses: 10, megabytes: 60, megabytesPerSecond: 5 } as const;

/** Limits of the memory after the first response, in MB. */
const residentBound = { limit: 32 };
const liveBound = { limit: 10 };

const bytesPerMiB = 1024 * 1024;
const megabytes = (bytes: number) => bytes / 1e6;

/**
 * Reads large responses slowly, and measures the memory of the service after the first one and until the last one. Two
 * gateways are measured at the same time: the resident memory of one in its default settings, and the live memory of another
 * one with the inspector, because finding it collects the garbage.
 *
 * @throws Error if a response is not complete
 */
export async function measureMemory(bench: Bench): Promise<Report> {
  const { options, upstreams, log } = bench;
  await using owned = new AsyncDisposableStack();
  using caller = makeCaller();
  const open = async (name: string, nodeFlags: readonly string[]) => {
    const gateway = owned.use(await startNamed(bench, name, { nodeFlags }));
    await connectUpstreams(gateway, upstreams);
    const url = gateway.endpoint('legacy');
    const message = callMessage('legacy', await openSession(caller, url), { answer: '60m' });
    return { gateway, read: () => readSlowly(url, message) };
  };
  const plain = await open('memory', options.nodeFlags);
  const inspected = await open('memory-inspected', [...options.nodeFlags, ...INSPECTOR_ARGS]);
  const probe = await connectProbe(inspected.gateway);
  owned.defer(() => probe.close());

  const { pid } = plain.gateway.child;
  const resident = () => megabytes(residentMiB(pid) * bytesPerMiB);
  const live = async () => megabytes((await probe.memory()).used);
  const readBoth = () => Promise.all([plain.read(), inspected.read()]);
  await readBoth();
  const first = { resident: resident(), live: await live() };
  log(`memory after the first response: RSS ${first.resident.toFixed(0)} MB, live ${first.live.toFixed(1)} MB`);
  resetPeak(pid);
  let livePeak = 0;
  for (let count = 2; count <= slowReader.responses; count++) {
    const reading = readBoth();
    // In the middle of the response and after it.
    await Promise.race([reading, wait((slowReader.megabytes / slowReader.megabytesPerSecond) * 500)]);
    livePeak = Math.max(livePeak, await live());
    await reading;
    livePeak = Math.max(livePeak, await live());
    const peak = megabytes(peakMiB(pid) * bytesPerMiB);
    log(`memory until response ${count}: RSS at most ${peak.toFixed(0)} MB, live at most ${livePeak.toFixed(1)} MB`);
  }
  const residentPeak = megabytes(peakMiB(pid) * bytesPerMiB);
  const row = (title: string, from: number, to: number) => ({
    title,
    cells: [tenths(from), tenths(to)],
    figure: to - from,
    format: tenths,
  });
  const title = `${slowReader.responses} responses of ${slowReader.megabytes} MB, read at ${slowReader.megabytesPerSecond} MB/s`;
  return {
    block: 'memory',
    measured: '',
    tables: [
      {
        head: [title, 'MB after the first', 'MB at most afterwards', 'growth'],
        rows: [
          { ...row('RSS', first.resident, residentPeak), bound: residentBound },
          { ...row('live heap and buffers', first.live, livePeak), bound: liveBound },
        ],
      },
    ],
  };
}

/** Connects to the inspector of a gateway that was started with its flags. */
export async function connectProbe({ child }: Gateway): Promise<ProcessProbe> {
  const url = await child.waitFor('it printed the address of its inspector', 5_000, () => {
    return /^Debugger listening on (\S+)/m.exec(child.output())?.[1];
  });
  return ProcessProbe.open(url, child.pid);
}

/** Sends a request and reads its response at the rate of the slow reader. Rejects if it is not complete. */
function readSlowly(url: URL, message: Message): Promise<void> {
  const { megabytes: expected, megabytesPerSecond } = slowReader;
  return new Promise((resolve, reject) => {
    const headers = { ...message.headers, 'Content-Length': Buffer.byteLength(message.body) };
    const outgoing = request(url, { method: 'POST', headers }, (res) => {
      const startedAt = performance.now();
      let bytes = 0;
      res.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        const aheadMs = startedAt + bytes / (megabytesPerSecond * 1_000) - performance.now();
        if (aheadMs < 1) return;
        res.pause();
        setTimeout(() => res.resume(), aheadMs);
      });
      res.on('error', reject);
      res.on('end', () => {
        if (res.statusCode === 200 && bytes >= expected * 1e6) resolve();
        else reject(new Error(`${url}: status ${res.statusCode} with ${bytes} bytes`));
      });
    });
    outgoing.on('error', reject);
    outgoing.end(message.body);
  });
}
