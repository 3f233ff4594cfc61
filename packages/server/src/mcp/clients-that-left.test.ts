import { once } from 'node:events';
import { createServer } from 'node:http';
import { parseMessage } from '@sluice/protocol/mcp/message';
import { TokenSealer } from '@sluice/protocol/seal';
import { expect, it, onTestFinished } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { Reading } from '../../testing/session-client.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import type { Outcome, RequestContext } from '../http/context.ts';
import { createLogger } from '../telemetry/log.ts';
import { RequestMetrics } from '../telemetry/metrics/request-metrics.ts';
import { observing } from '../telemetry/request-telemetry.ts';
import { serveRequest } from './listener.ts';
import { EventStore } from './sessions/resumable-streams.ts';

const REQUEST = '{"jsonrpc":"2.0","id":1,"method":"tools/call"}';
const NOTIFICATION = '{"jsonrpc":"2.0","method":"notifications/x"}';

/** Whether what a request came to is begun, where its client has left before it was decided on. */
async function begun(body: string, era: RequestContext['era']): Promise<boolean> {
  const reached = Promise.withResolvers<void>();
  const decided = Promise.withResolvers<void>();
  let started = false;
  const outcome: Outcome = {
    kind: 'stream',
    start: () => {
      started = true;
    },
  };
  const chain = async (context: RequestContext) => {
    const message = parseMessage(context.body);
    if (message.kind === 'request' || message.kind === 'notification') context.message = message;
    context.era = era;
    reached.resolve();
    await decided.promise;
    return outcome;
  };
  const log = createLogger(DEFAULT_LOG_FILTER, () => {});
  const options = {
    chain,
    guard: () => undefined,
    secure: false,
    mcp: { events: new EventStore(new TokenSealer(Buffer.alloc(32)), 'r'), maxRequestBytes: 1024 },
    observe: observing('mcp', 'service::mcp::access', {
      metrics: new RequestMetrics(),
      logger: log,
      tracing: undefined,
    }),
    log: log.target('service::mcp'),
  };
  const closed = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    response.on('close', () => closed.resolve());
    serveRequest(options, request, response);
  });
  onTestFinished(async () => {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  });
  const reading = new Reading(`http://127.0.0.1:${await listen(server, 0)}/x/mcp`, 'POST', {}, body);
  await reached.promise;
  reading.leave();
  await closed.promise;
  decided.resolve();
  // What is to be begun is begun in the microtasks after that.
  await new Promise((resolve) => setImmediate(resolve));
  return started;
}

it('a request of a legacy client that left meanwhile is carried out', async () => {
  expect(await begun(REQUEST, 'legacy')).toBe(true);
});

it('a request of a modern client that left meanwhile is not', async () => {
  expect(await begun(REQUEST, 'modern')).toBe(false);
});

it('what is no request is not begun for nobody', async () => {
  expect(await begun(NOTIFICATION, 'legacy')).toBe(false);
});
