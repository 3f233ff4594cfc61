import { once } from 'node:events';
import { parseMessage } from '@sluice/protocol/mcp/message';
import { TokenSealer } from '@sluice/protocol/seal';
import { expect, it, onTestFinished } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { ResponseReader } from '../../testing/session-client.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { BodyBudget } from '../http/body-budget.ts';
import { createHttpServer } from '../http/server.ts';
import { proxyHeaders } from '../identity/proxy-headers.ts';
import { createLogger } from '../telemetry/log.ts';
import { RequestMetrics } from '../telemetry/metrics/request-metrics.ts';
import { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import { McpExchange, type McpOutcome } from './exchange.ts';
import { requestHandler } from './listener.ts';
import { OpenResponses } from './open-responses.ts';
import { EventStore } from './sessions/event-store.ts';

const REQUEST = '{"jsonrpc":"2.0","id":1,"method":"tools/call"}';
const NOTIFICATION = '{"jsonrpc":"2.0","method":"notifications/x"}';

/** Whether the outcome of a request is started when its client disconnected before the decision. */
async function begun(body: string, era: McpExchange['era'], accepts?: () => boolean): Promise<boolean> {
  const reached = Promise.withResolvers<void>();
  const decided = Promise.withResolvers<void>();
  let started = false;
  const outcome: McpOutcome = {
    kind: 'deferred',
    start: () => {
      started = true;
    },
  };
  const chain = async (exchange: McpExchange) => {
    const message = parseMessage(exchange.body);
    if (message.kind === 'request' || message.kind === 'notification') exchange.message = message;
    exchange.era = era;
    reached.resolve();
    await decided.promise;
    return outcome;
  };
  const log = createLogger(DEFAULT_LOG_FILTER, () => {});
  const telemetry = new RequestTelemetry('mcp', 'service::mcp::access', {
    metrics: new RequestMetrics(),
    logger: log,
    tracing: undefined,
  });
  const options = {
    chain,
    telemetry,
    mcp: {
      events: new EventStore(new TokenSealer(Buffer.alloc(32)), 'r'),
      openResponses: new OpenResponses(),
      maxRequestBytes: 1024,
      bodies: new BodyBudget(),
      namespaceAt: () => 'default',
      readsBody: () => true,
    },
    log: log.target('service::mcp'),
    ...(accepts && { accepts }),
  };
  const closed = Promise.withResolvers<void>();
  const connection = { authenticate: proxyHeaders(), tls: undefined, readTimeoutMs: 0, maxConnections: undefined };
  const handle = requestHandler(options);
  const server = createHttpServer(
    {
      ...connection,
      guard: () => undefined,
      telemetry,
      createExchange: (head, request, response) => new McpExchange(head, request, response),
    },
    (exchange, rejection) => {
      exchange.response.on('close', () => closed.resolve());
      handle(exchange, rejection);
    },
  );
  onTestFinished(async () => {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  });
  const reading = new ResponseReader(`http://127.0.0.1:${await listen(server, 0)}/x/mcp`, 'POST', {}, body);
  await reached.promise;
  reading.disconnect();
  await closed.promise;
  decided.resolve();
  // Outcomes are started in the following microtasks.
  await new Promise((resolve) => setImmediate(resolve));
  return started;
}

it('a request of a disconnected legacy client is still executed', async () => {
  expect(await begun(REQUEST, 'legacy')).toBe(true);
});

it('a request whose credential is not accepted any more is not executed without its client', async () => {
  expect(await begun(REQUEST, 'legacy', () => true)).toBe(true);
  expect(await begun(REQUEST, 'legacy', () => false)).toBe(false);
});

it('a request of a disconnected modern client is not executed', async () => {
  expect(await begun(REQUEST, 'modern')).toBe(false);
});

it('other outcomes of a disconnected client are not started', async () => {
  expect(await begun(NOTIFICATION, 'legacy')).toBe(false);
});
