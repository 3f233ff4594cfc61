import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { ReconnectDelay } from '@sluice/protocol/timing';
import type { ListenAddress } from '../http/address.ts';
import { createHttp1Server, type HttpServer } from '../http/server/http1-server.ts';
import type { ServerRequest } from '../http/server/request.ts';
import type { ServerResponse } from '../http/server/response.ts';
import { errorResponse } from '../management/responses.ts';
import { UnavailableStoreError } from '../registry/store/store.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { Config } from './config/config.ts';

const ALIVE = { status: 200, body: '{"data":{"status":"ok"},"error":null}' };
const RETRY = ['retry-after', '1'];

/** Longest time between two attempts. */
const MAX_DELAY_MS = 2_000;

/**
 * Runs `open`, and again until the database can be reached. Until then all requests but `/healthz` are answered with 503, so that
 * an orchestrator sees a process that is alive and not ready. Rejects with any other error of `open`.
 */
export async function untilReachable(open: () => Promise<void>, config: Config, log: TargetLogger): Promise<void> {
  const delays = new ReconnectDelay({ firstMs: 250, maxMs: MAX_DELAY_MS });
  let servers: readonly HttpServer[] | undefined;
  try {
    for (;;) {
      try {
        return await open();
      } catch (error) {
        if (!(error instanceof UnavailableStoreError)) throw error;
        if (!servers) {
          log.error('database unreachable; startup waits for it', { error });
          servers = await listenAll(config);
        }
      }
      await delay(delays.next());
    }
  } finally {
    await Promise.all(servers?.map(close) ?? []);
  }
}

/** TLS listeners are not opened: nothing could be said on them that a refused connection does not say. */
async function listenAll({ mgmtListen, pipeline }: Config): Promise<HttpServer[]> {
  const addresses = [mgmtListen, ...pipeline.listeners.filter(({ tls }) => !tls).map(({ address }) => address)];
  return await Promise.all(addresses.map(listen));
}

const TIMEOUTS = { keepAliveMs: 75_000, headMs: 60_000, requestMs: 300_000, checkMs: 30_000 };

async function listen({ host, port }: ListenAddress): Promise<HttpServer> {
  const server = createHttp1Server({ tls: undefined, connectStatus: 400, ...TIMEOUTS }, answer);
  server.listen({ host, port });
  await once(server, 'listening');
  return server;
}

function answer(request: ServerRequest, response: ServerResponse): void {
  request.resume();
  // The next request may be for the service itself.
  response.shouldKeepAlive = false;
  const { url } = request;
  const isHealthCheck = url === '/healthz' || url === '/health';
  const { status, body } = isHealthCheck ? ALIVE : errorResponse('UNAVAILABLE', 'the service waits for its database');
  const length = ['content-length', String(Buffer.byteLength(body))];
  response.writeHead(status, ['content-type', 'application/json', ...length, ...(isHealthCheck ? [] : RETRY)]);
  response.end(body);
}

async function close(server: HttpServer): Promise<void> {
  server.close();
  server.closeAllConnections();
  await once(server, 'close');
}
