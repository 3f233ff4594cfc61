import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { ReconnectDelay } from '@sluice/protocol/timing';
import type { ListenAddress } from '../http/address.ts';
import { errorResponse } from '../management/responses.ts';
import { UnavailableStoreError } from '../registry/store/store.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { Config } from './config/config.ts';

/** Longest time between two attempts. */
const MAX_DELAY_MS = 2_000;

/**
 * Runs `open`, and again until the database can be reached. Until then all requests but `/healthz` are answered with 503, so that
 * an orchestrator sees a process that is alive and not ready. Rejects with any other error of `open`.
 */
export async function untilReachable(open: () => Promise<void>, config: Config, log: TargetLogger): Promise<void> {
  const delays = new ReconnectDelay({ firstMs: 250, maxMs: MAX_DELAY_MS });
  let servers: readonly Server[] | undefined;
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
async function listenAll({ mgmtListen, pipeline }: Config): Promise<Server[]> {
  const addresses = [mgmtListen, ...pipeline.listeners.filter(({ tls }) => !tls).map(({ address }) => address)];
  return await Promise.all(addresses.map(listen));
}

async function listen({ host, port }: ListenAddress): Promise<Server> {
  const server = createServer(answer).listen({ host, port });
  await once(server, 'listening');
  return server;
}

const answer: RequestListener = (request, response) => {
  request.resume();
  if (request.url === '/healthz' || request.url === '/health') {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end('{"data":{"status":"ok"},"error":null}');
    return;
  }
  const { status, headers, body } = errorResponse('UNAVAILABLE', 'the service waits for its database');
  response.writeHead(status, { ...headers, 'retry-after': '1' }).end(body);
};

async function close(server: Server): Promise<void> {
  server.close();
  server.closeAllConnections();
  await once(server, 'close');
}
