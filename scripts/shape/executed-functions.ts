import { mkdtemp, rm } from 'node:fs/promises';
import { Session } from 'node:inspector/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { makeCaller, openSession } from '../../bench/caller.ts';
import { startUpstream } from '../../bench/gateway.ts';
import { callMessage } from '../../bench/messages.ts';
import { startTestService } from '../../packages/server/testing/service.ts';

/** A function that ran, with its offsets in its file. */
export interface ExecutedFunction {
  /** Absolute path. */
  readonly file: string;
  readonly start: number;
  readonly end: number;
}

/**
 * Returns the functions of the packages that a `tools/call` of a client of each era runs in the service, from the first byte
 * of the request to the last one of the log line. Connections and sessions are open already.
 */
export async function functionsOfCall(): Promise<ExecutedFunction[]> {
  const folder = await mkdtemp(join(tmpdir(), 'shape-'));
  await using running = new AsyncDisposableStack();
  running.defer(() => rm(folder, { recursive: true, force: true }));
  const service = running.adopt(await startTestService(), (started) => started.stop(0));
  const caller = running.use(makeCaller());
  const requests = await Promise.all(
    (['legacy', 'modern'] as const).map(async (era) => {
      const upstream = running.use(await startUpstream(folder, era, 1, 1));
      await service.register('forwards', { name: era, namespace: era, address: upstream.endpoint().href });
      const url = new URL(service.url(era));
      return { url, message: callMessage(era, era === 'legacy' ? await openSession(caller, url) : undefined) };
    }),
  );
  const call = async () => {
    for (const { url, message } of requests) {
      const { status, body } = await caller.post(url, message);
      if (status !== 200 || !body.includes('"content":')) throw new Error(`tools/call at ${url}: ${status} ${body}`);
    }
  };
  await call();
  return await executedBy(call);
}

async function executedBy(run: () => Promise<void>): Promise<ExecutedFunction[]> {
  const session = new Session();
  session.connect();
  try {
    await session.post('Profiler.enable');
    await session.post('Profiler.startPreciseCoverage', { callCount: true });
    // Resets the counts.
    await session.post('Profiler.takePreciseCoverage');
    await run();
    const { result } = await session.post('Profiler.takePreciseCoverage');
    return result
      .filter(({ url }) => /^file:.*\/packages\/[^/]+\/src\/.*\.ts$/.test(url))
      .flatMap(({ url, functions }) =>
        functions.flatMap(({ ranges: [range] }) => {
          if (range === undefined || range.count === 0) return [];
          return [{ file: fileURLToPath(url), start: range.startOffset, end: range.endOffset }];
        }),
      );
  } finally {
    session.disconnect();
  }
}
