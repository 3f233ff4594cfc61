import { setTimeout as delay } from 'node:timers/promises';
import { ReconnectDelay } from '@sluice/protocol/timing';
import { createHttp1Server } from '../http/server/http1-server.ts';
import type { ServerRequest } from '../http/server/request.ts';
import type { ServerResponse } from '../http/server/response.ts';
import { type Listener, listen } from '../http/server.ts';
import { errorResponse } from '../management/responses.ts';
import { UnavailableStoreError } from '../registry/store/store.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { Config } from './config/config.ts';
import type { PipelineListener } from './config/pipeline/pipeline.ts';

const ALIVE = { status: 200, body: '{"data":{"status":"ok"},"error":null}' };
const RETRY = ['retry-after', '1'];

/** The listeners that are opened meanwhile. */
interface ListenConfig extends Pick<Config, 'mgmtListen' | 'sharesPorts'> {
  readonly pipeline: { readonly listeners: readonly Pick<PipelineListener, 'address' | 'tls'>[] };
}

/** Longest time between two attempts. */
const MAX_DELAY_MS = 2_000;

/**
 * Runs `open`, and again until the database can be reached. Until then all requests but `/healthz` are answered with 503, so that
 * an orchestrator sees a process that is alive and not ready. Rejects with any other error of `open`.
 */
export async function untilReachable(
  open: () => Promise<void>,
  config: ListenConfig,
  log: TargetLogger,
): Promise<void> {
  const delays = new ReconnectDelay({ firstMs: 250, maxMs: MAX_DELAY_MS });
  let listeners: readonly Listener[] | undefined;
  try {
    for (;;) {
      try {
        return await open();
      } catch (error) {
        if (!(error instanceof UnavailableStoreError)) throw error;
        if (!listeners) {
          log.error('database unreachable; startup waits for it', { error });
          listeners = await listenAll(config);
        }
      }
      await delay(delays.next());
    }
  } finally {
    await Promise.all(listeners?.map((listener) => listener.drain(0)) ?? []);
  }
}

const TIMEOUTS = { keepAliveMs: 75_000, headMs: 60_000, requestMs: 300_000, checkMs: 30_000 };

/** TLS listeners are not opened: nothing could be said on them that a refused connection does not say. */
async function listenAll({ mgmtListen, sharesPorts, pipeline }: ListenConfig): Promise<Listener[]> {
  const addresses = [mgmtListen, ...pipeline.listeners.filter(({ tls }) => !tls).map(({ address }) => address)];
  const server = () => createHttp1Server({ tls: undefined, connectStatus: 400, ...TIMEOUTS }, answer);
  return await Promise.all(addresses.map((address) => listen(server(), address, sharesPorts)));
}

function answer(request: ServerRequest, response: ServerResponse): void {
  request.body.resume();
  // The next request may be for the service itself.
  request.persistent = false;
  const { url } = request;
  const isHealthCheck = url === '/healthz' || url === '/health';
  const { status, body } = isHealthCheck ? ALIVE : errorResponse('UNAVAILABLE', 'the service waits for its database');
  const length = ['content-length', String(Buffer.byteLength(body))];
  response.writeHead(status, ['content-type', 'application/json', ...length, ...(isHealthCheck ? [] : RETRY)]);
  response.end(body);
}
