import { once } from 'node:events';
import { parseMessage } from '@sluice/protocol/mcp/message';
import { TokenSealer } from '@sluice/protocol/seal';
import { expect, it, onTestFinished } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { ResponseReader } from '../../testing/session-client.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { BodyBudget } from '../http/body-budget.ts';
import { rpcError } from '../http/outcome.ts';
import { createHttpServer } from '../http/server.ts';
import { proxyHeaders } from '../identity/proxy-headers.ts';
import { createLogger } from '../telemetry/log.ts';
import { RequestMetrics } from '../telemetry/metrics/request-metrics.ts';
import { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import { McpExchange, type McpOutcome } from './exchange.ts';
import { COMMENTS } from './fixtures/silence.ts';
import { requestHandler } from './listener.ts';
import { OpenResponses } from './open-responses.ts';
import { EventStore } from './sessions/event-store.ts';

const REQUEST = '{"jsonrpc":"2.0","id":1,"method":"tools/call"}';

/** A listener whose filters decide about requests to `/checked` when the test does; those to `/silent` never end. */
async function startListener(decision: Promise<McpOutcome>): Promise<(path: string) => ResponseReader> {
  const chain = (exchange: McpExchange): McpOutcome | Promise<McpOutcome> => {
    const message = parseMessage(exchange.body);
    if (message.kind === 'request') exchange.message = message;
    return exchange.path === '/checked' ? decision : { kind: 'deferred', start: () => undefined };
  };
  const log = createLogger(DEFAULT_LOG_FILTER, () => {});
  const events = new EventStore(new TokenSealer(Buffer.alloc(32)), 'r');
  const telemetry = new RequestTelemetry('mcp', 'service::mcp::access', {
    metrics: new RequestMetrics(),
    logger: log,
    tracing: undefined,
  });
  const handle = requestHandler({
    chain,
    telemetry,
    mcp: {
      events,
      openResponses: new OpenResponses({ resumableMs: 50, headMs: 50, commentMs: 50, stepMs: 10 }),
      maxRequestBytes: 1024,
      bodies: new BodyBudget(),
      namespaceAt: () => 'default',
      readsBody: () => true,
    },
    log: log.target('service::mcp'),
  });
  const connection = { authenticate: proxyHeaders(), tls: undefined, readTimeoutMs: 0, maxConnections: undefined };
  const server = createHttpServer(
    {
      ...connection,
      guard: () => undefined,
      telemetry,
      createExchange: (head, request, response) => new McpExchange(head, request, response),
    },
    handle,
  );
  onTestFinished(async () => {
    events.close();
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  });
  const port = await listen(server, 0);
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  return (path) => new ResponseReader(`http://127.0.0.1:${port}${path}`, 'POST', headers, REQUEST);
}

it.each([
  ['a rejection with a status', rpcError(-32600, 'no', 403), 403, { error: { code: -32600 } }],
  ['a rejection', rpcError(-32000, 'no'), 200, { error: { code: -32000 } }],
  ['a result of our own', { kind: 'result', json: '{"x":1}' } as const, 200, { result: { x: 1 } }],
])('%s that takes long is sent as it is, and not on a stream', async (_what, outcome, status, member) => {
  const decision = Promise.withResolvers<McpOutcome>();
  const post = await startListener(decision.promise);
  const checked = post('/checked');
  const silent = post('/silent');
  await silent.matching(COMMENTS);
  expect(checked.text).toBe('');
  decision.resolve(outcome);
  expect(await checked.ended).toBe(true);
  const { statusCode, headers } = await checked.head;
  expect([statusCode, headers['content-type']]).toEqual([status, 'application/json']);
  expect(JSON.parse(checked.text)).toMatchObject({ id: 1, ...member });
  silent.disconnect();
});

it('a request that our own checks held up for long gets its stream as soon as it is executed', async () => {
  const decision = Promise.withResolvers<McpOutcome>();
  const post = await startListener(decision.promise);
  const checked = post('/checked');
  await post('/silent').matching(COMMENTS);
  decision.resolve({ kind: 'deferred', start: () => undefined });
  await checked.matching(COMMENTS);
  expect((await checked.head).statusCode).toBe(200);
});
