import type { Server } from 'node:http';
import type { LoadedListener } from '../config/pipeline/pipeline.ts';
import type { Chain } from '../pipeline/chain.ts';
import type { EventStore } from '../sessions/event-store.ts';
import type { Logger } from '../telemetry/log.ts';
import { observing, type RequestTelemetryParts } from '../telemetry/requests/request-telemetry.ts';
import { serveRequest } from './http.ts';
import type { Guard } from './origin.ts';
import { createHttpServer } from './server.ts';

/** What listeners are made with. */
export interface PipelineListenerOptions {
  readonly chain: Chain;
  readonly guard: Guard;
  readonly events: EventStore;
  readonly logger: Logger;
  readonly requests: RequestTelemetryParts;
}

/** What a client gets to send a request that is held whole; bodies that are passed on may take as long as they come. */
const READ_TIMEOUT_MS = 300_000;

/** The server of one of the pipeline's listeners. The caller listens and closes. */
export function pipelineListener(listener: LoadedListener, options: PipelineListenerOptions): Server {
  const { name, keyPair, readTimeoutMs, maxConnections, filters } = listener;
  const { chain, guard, events, logger, requests } = options;
  // Which of several filters a request meets is known when its body is there.
  const readers = filters.map(({ settings }) => settings).filter((settings) => settings.filter === 'mcp');
  const bodyLimits = readers.map(({ max_body_bytes }) => max_body_bytes);
  const mcp = readers.length > 0 ? { events, maxRequestBytes: Math.max(...bodyLimits) } : undefined;
  const serving = {
    chain,
    guard,
    secure: keyPair !== undefined,
    mcp,
    observe: observing(name, mcp ? 'service::mcp::access' : 'service::inference::access', requests),
    log: logger.target(mcp ? 'service::mcp' : 'service::inference'),
  };
  return createHttpServer(
    { tls: keyPair, readTimeoutMs: readTimeoutMs ?? (mcp ? READ_TIMEOUT_MS : 0), maxConnections },
    (request, response, refusal) => serveRequest(serving, request, response, refusal),
  );
}
