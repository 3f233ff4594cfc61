import type { Server } from 'node:http';
import type { LoadedListener } from '../config/pipeline/pipeline.ts';
import type { Chain } from '../pipeline/chain.ts';
import type { EventStore } from '../sessions/event-store.ts';
import type { Logger } from '../telemetry/log.ts';
import { serveRequest } from './http.ts';
import type { Guard } from './origin.ts';
import { createHttpServer } from './server.ts';

/** What listeners are made with. */
export interface PipelineListenerOptions {
  readonly chain: Chain;
  readonly guard: Guard;
  readonly events: EventStore;
  /** Bytes that a body may have where it is held whole, unless the filter `mcp` says otherwise. */
  readonly bodyLimit: number;
  readonly logger: Logger;
}

/** What a client gets to send a request that is held whole; bodies that are passed on may take as long as they come. */
const READ_TIMEOUT_MS = 300_000;

/** The server of one of the pipeline's listeners. The caller listens and closes. */
export function pipelineListener(listener: LoadedListener, options: PipelineListenerOptions): Server {
  const { keyPair, readTimeoutMs, maxConnections, filters } = listener;
  const { chain, guard, events, bodyLimit, logger } = options;
  const mcp = filters.map(({ settings }) => settings).find((settings) => settings.filter === 'mcp');
  const serving = {
    chain,
    guard,
    mcp: mcp && { events, maxRequestBytes: mcp.max_body_bytes ?? bodyLimit },
    log: logger.target(mcp ? 'service::mcp' : 'service::inference'),
  };
  return createHttpServer(
    { tls: keyPair, readTimeoutMs: readTimeoutMs ?? (mcp ? READ_TIMEOUT_MS : 0), maxConnections },
    (request, response) => serveRequest(serving, request, response),
  );
}
