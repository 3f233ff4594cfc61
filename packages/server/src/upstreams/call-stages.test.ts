import { expect, it, onTestFinished } from 'vitest';
import { accessTo, permitToWork } from '../access/fixtures/access.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { ExchangeFacts } from '../exchange/facts.ts';
import { Registry } from '../registry/registry.ts';
import { memoryLog } from '../registry/store/record-log.ts';
import { createLogger } from '../telemetry/log.ts';
import { ToolCallEvents } from '../telemetry/tool-calls/events.ts';
import { handleCalls, type StageDeps } from './call-stages.ts';
import { NO_CLIENT } from './client-facts.ts';
import type { UpstreamConnection } from './connection.ts';
import { InFlightCalls } from './in-flight-calls.ts';
import { type CallOutcome, DetachedSink } from './response-sink.ts';

/** Handles one call by a connection; returns its outcomes and the types of its events. */
async function handle(request: UpstreamConnection['request']) {
  const lines: string[] = [];
  const logger = createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line));
  const toolCalls = new ToolCallEvents(logger);
  const calls = new InFlightCalls({ idleMs: 60_000, totalMs: 60_000 });
  onTestFinished(() => calls.close());
  const connection: UpstreamConnection = {
    address: 'http://work.test/mcp',
    createsTasks: false,
    describe: () => ({
      kind: 'described',
      target: { transport: 'mcp' },
      request: { method: 'tools/call', protocol: 'mcp', subject: undefined, server: 'work.test' },
      summary: { argumentNames: [], argumentCount: 0, headerNames: [], code: false },
    }),
    request,
  };
  const deps: Partial<StageDeps> = {
    access: accessTo(new Registry(memoryLog())),
    connectionOf: () => connection,
    calls,
    toolCalls,
    log: logger.target('service::forward'),
    promotedCalls: { accepts: () => false } as unknown as StageDeps['promotedCalls'],
  };
  const outcomes: CallOutcome[] = [];
  const client = { ...NO_CLIENT, facts: new ExchangeFacts() };
  handleCalls(deps as StageDeps)(
    await permitToWork(),
    connection,
    new DetachedSink(client, (one) => outcomes.push(one)),
  );
  const events = toolCalls.recent({ limit: 10 }).map(({ details }) => details.type);
  return { outcomes, events: events.reverse(), log: lines.join('') };
}

it('an error in what sends a call is its outcome', async () => {
  const { outcomes, events, log } = await handle(() => {
    throw new Error('S3CRET');
  });
  expect(outcomes).toEqual([{ kind: 'failed', error: { code: -32603, message: 'internal error' } }]);
  expect(events).toEqual(['STARTED', 'FAILED']);
  expect(log).toContain('S3CRET');
});

it('only the first outcome of a call counts', async () => {
  const { outcomes, events } = await handle((_, sink) => {
    sink.complete({ kind: 'result', json: '{}' });
    sink.complete({ kind: 'result', json: '{"second":true}' });
    throw new Error('too late');
  });
  expect(outcomes).toEqual([{ kind: 'result', json: '{}' }]);
  expect(events).toEqual(['STARTED', 'COMPLETED']);
});
