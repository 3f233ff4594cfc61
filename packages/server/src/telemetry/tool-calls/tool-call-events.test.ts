import { type ToolCallErrorCategory, toolCallErrorCategory, toolCallEvent } from '@sluice/contract';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { ExchangeFacts } from '../../exchange/facts.ts';
import { CallObserver } from '../call-observer.ts';
import { createLogger, type LogThreshold } from '../log.ts';
import { codeSummary, codeToolName, contentOfTexts, eventOf, toolSummary } from './event.ts';
import { EventIds, ToolCallEvents } from './events.ts';
import { begun, identity } from './identities.fixture.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const COMPLETION = 'conv-1';
const SERVICE = { id: 'py', address: '127.0.0.1:50051', requestId: 'req-2' };
const START = Date.UTC(2026, 0, 2, 3, 4, 5, 6);

/** Events with a manual clock and a recorded log. */
function start(level: LogThreshold = 'info') {
  const lines: string[] = [];
  const filter = {
    service: 'off',
    'service::mcp': 'off',
    'service::mcp::access': 'off',
    'service::mgmt': 'off',
    'service::mgmt::access': 'off',
    'service::inference': 'off',
    'service::inference::access': 'off',
    'service::evaluator': 'off',
    'service::bridge': level,
    'service::registry': 'off',
    'service::forward': level,
  } as const;
  let passed = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => 1000 + passed);
  onTestFinished(() => void vi.restoreAllMocks());
  const logger = createLogger(filter, (line) => lines.push(line));
  const events = new ToolCallEvents(logger, { isCompletion: (id) => id === COMPLETION, now: () => START + passed });
  const recorded = (limit = 1000) =>
    events
      .recent({ limit })
      .map((record) => toolCallEvent.parse(eventOf(record)))
      .reverse();
  return {
    events,
    recorded,
    lines: () => lines.map((line): Record<string, unknown> => JSON.parse(line)),
    pass: (ms: number) => {
      passed += ms;
    },
  };
}

const NOTHING = contentOfTexts([]);

/** Members of every event of these calls, which no evaluator matches. */
/** The members of an event that are those of its call. */
const IDENTITY = {
  transport: 'grpc',
  namespace: 'default',
  toolName: 'echo',
  toolType: 'py',
  serviceId: 'py',
  serviceAddress: '127.0.0.1:50051',
  conversationId: 'conv-1',
  requestId: 'req-1',
};

describe('a call that is executed', () => {
  test('has a STARTED event with names only', () => {
    const { events, recorded } = start();
    const args = { text: 'S3CRET', service_auth_key: 'S3CRET', service_meta_a: 'S3CRET', n: 1 };
    begun(events, identity(), toolSummary(Object.keys(args), ['a', 'key']));
    const [event] = recorded();
    expect(event).toEqual({
      eventId: expect.stringMatching(UUID),
      eventType: 'STARTED',
      timestamp: '2026-01-02T03:04:05.006Z',
      ...IDENTITY,
      argumentNames: ['text', 'service_meta_a', 'n'],
      argumentCount: 4,
      headers: { a: '[REDACTED]', key: '[REDACTED]' },
    });
  });

  test('has a COMPLETED event of the same id with content and duration', () => {
    const { events, recorded, pass } = start();
    const report = begun(events, identity(), toolSummary([], []));
    pass(12.3456);
    report.completed(false, contentOfTexts(['a', 'b']));
    const [started, completed] = recorded();
    expect(started?.eventId).toBe(report.eventId);
    expect(completed).toEqual({
      eventId: report.eventId,
      eventType: 'COMPLETED',
      timestamp: '2026-01-02T03:04:05.018Z',
      ...IDENTITY,
      outcome: 'completed',
      isError: false,
      content: ['a', 'b'],
      duration: 12.346,
    });
  });

  test('with an error result is COMPLETED with isError', () => {
    const { events, recorded } = start();
    begun(events, identity({ transport: 'mcp' }), toolSummary([], [])).completed(true, NOTHING);
    expect(recorded()[1]).toMatchObject({ eventType: 'COMPLETED', isError: true, content: [] });
  });

  test('marks truncated content', () => {
    const { events, recorded } = start();
    begun(events, identity(), toolSummary([], [])).completed(false, contentOfTexts(['x'.repeat(20_000)]));
    expect(recorded()[1]).toMatchObject({ content: ['x'.repeat(16 * 1024)], contentTruncated: true });
  });
});

test('code execution has [CODE] and the number of arguments', () => {
  const { events, recorded } = start();
  const toolName = codeToolName('docker', 'python');
  begun(events, identity({ transport: 'code', toolName }), codeSummary(3));
  const [event] = recorded();
  expect(event).toEqual({
    eventId: expect.stringMatching(UUID),
    eventType: 'STARTED',
    timestamp: expect.any(String),
    ...IDENTITY,
    transport: 'code',
    toolName: 'code-execution/docker/python',
    argumentCount: 3,
    headers: {},
    body: '[CODE]',
  });
});

test('omits members without a value', () => {
  const { events, recorded } = start();
  begun(
    events,
    identity({ service: {}, correlation: { conversationId: undefined, requestId: undefined } }),
    codeSummary(0),
  );
  const [event] = recorded();
  for (const member of ['serviceId', 'conversationId', 'requestId', 'argumentNames']) {
    expect(event).not.toHaveProperty(member);
  }
});

describe('a call that fails', () => {
  test.for(toolCallErrorCategory.options)('has a FAILED event of the category %s', (category) => {
    const { events, recorded, pass } = start();
    const report = begun(events, identity(), toolSummary([], []));
    pass(7);
    report.failed(category, 'why');
    expect(recorded()[1]).toEqual({
      eventId: report.eventId,
      eventType: 'FAILED',
      timestamp: expect.any(String),
      ...IDENTITY,
      duration: 7,
      outcome: category === 'POLICY_BLOCKED' ? 'blocked' : 'failed',
      errorCategory: category,
      errorMessage: 'why',
    });
  });

  test('before its start has one FAILED event with its own id', () => {
    const { events, recorded } = start();
    events.of(identity({ service: {} })).failed('SERVICE_UNAVAILABLE', 'no host');
    expect(recorded()).toMatchObject([
      {
        eventId: expect.stringMatching(UUID),
        eventType: 'FAILED',
        serviceAddress: '',
        duration: 0,
        errorCategory: 'SERVICE_UNAVAILABLE',
        errorMessage: 'no host',
      },
    ]);
  });

  test.each([
    ['x'.repeat(1000), 'x'.repeat(1000)],
    ['x'.repeat(1001), 'x'.repeat(1000)],
    ['😀'.repeat(1001), '😀'.repeat(1000)],
    [`x${'😀'.repeat(999)}`, `x${'😀'.repeat(999)}`],
  ])('has a message of at most 1000 characters (case %#)', (message, recorded) => {
    const ran = start();
    begun(ran.events, identity(), codeSummary(0)).failed('UNKNOWN', message);
    ran.events.of(identity()).failed('UNKNOWN', message);
    expect(ran.recorded().slice(1)).toMatchObject([{ errorMessage: recorded }, { errorMessage: recorded }]);
  });
});

describe('the stored events', () => {
  test('are the last 1000, newest first', () => {
    const { events } = start('off');
    for (let at = 0; at < 1001; at++) events.of(identity({ toolName: `t${at}` })).failed('UNKNOWN', '');
    const kept = events.recent({ limit: 5000 });
    expect(kept.length).toBe(1000);
    expect([kept[0]?.identity.toolName, kept[999]?.identity.toolName]).toEqual(['t1000', 't1']);
    expect(events.recent({ limit: 2 }).map((each) => each.identity.toolName)).toEqual(['t1000', 't999']);
  });

  test('can be filtered by tool and by category', () => {
    const { events } = start('off');
    const categories: ToolCallErrorCategory[] = ['UNKNOWN', 'INVALID_ARGUMENTS'];
    for (const toolName of ['a', 'b']) {
      begun(events, identity({ toolName }), codeSummary(0)).completed(false, NOTHING);
      for (const category of categories) events.of(identity({ toolName })).failed(category, '');
    }
    const count = (filter: { toolName?: string; category?: string }) => events.recent({ limit: 9, ...filter }).length;
    expect([count({}), count({ toolName: 'a' }), count({ category: 'UNKNOWN' })]).toEqual([8, 4, 2]);
    expect(count({ toolName: 'b', category: 'INVALID_ARGUMENTS' })).toBe(1);
    expect(count({ toolName: 'c' })).toBe(0);
  });
});

const FAILED_TOOL = { outcome: 'tool_error', is_error: true };

describe('the log', () => {
  test.for([
    ['mcp', 'service::forward'],
    ['grpc', 'service::bridge'],
    ['code', 'service::bridge'],
  ] as const)('has a line per event of %s with target %s, without the result', ([transport, target]) => {
    const { events, lines, pass } = start('debug');
    const report = begun(events, identity({ transport, service: SERVICE }), toolSummary(['named'], ['h']));
    pass(5);
    report.completed(true, contentOfTexts(['S3CRET']));
    events.of(identity({ transport, service: SERVICE })).failed('INVALID_ARGUMENTS', 'S3CRET');
    const common = {
      target,
      transport,
      namespace: 'default',
      tool: 'echo',
      tool_type: 'py',
      service: 'py',
      service_address: '127.0.0.1:50051',
      x_request_id: 'req-1',
      conversation_id: 'conv-1',
      completion_id: COMPLETION,
      service_request_id: 'req-2',
    };
    const { eventId } = report;
    const ts = expect.any(String);
    expect(lines()).toEqual([
      { ...common, ts, level: 'debug', msg: 'tool call started', event_id: eventId, argument_count: 1 },
      { ...common, ts, level: 'debug', msg: 'tool call completed', event_id: eventId, ...FAILED_TOOL, duration_ms: 5 },
      {
        ...common,
        ts,
        level: 'debug',
        msg: 'tool call failed',
        event_id: expect.stringMatching(UUID),
        outcome: 'failed',
        error_category: 'INVALID_ARGUMENTS',
        duration_ms: 0,
      },
    ]);
  });

  test('only contains the request id sent to the service', () => {
    const { events } = start('off');
    begun(events, identity({ service: SERVICE }), codeSummary(0)).failed('UNKNOWN', '');
    expect(JSON.stringify(events.recent({ limit: 9 }).map(eventOf))).not.toContain('req-2');
  });

  test('is empty at level info: the last event is in the access log', () => {
    const { events, lines } = start('info');
    const facts = new ExchangeFacts();
    const report = events.of(identity(), facts);
    report.begin(codeSummary(0));
    expect(CallObserver.lastEventOf(facts)).toBeUndefined();
    report.failed('UNKNOWN', '');
    report.completed(false, NOTHING);
    expect(lines()).toEqual([]);
    expect(CallObserver.lastEventOf(facts)).toMatchObject({
      eventId: report.eventId,
      completionId: COMPLETION,
      details: { type: 'FAILED', category: 'UNKNOWN' },
    });
  });

  test('is empty below level debug', () => {
    const { events, lines, recorded } = start('warn');
    begun(events, identity(), codeSummary(0)).failed('UNKNOWN', '');
    expect(lines()).toEqual([]);
    expect(recorded().length).toBe(2);
  });
});

test('10,000 ids of events are UUIDs, and no two are equal', () => {
  const ids = new EventIds();
  const created = Array.from({ length: 10_000 }, () => ids.next());
  for (const id of created) expect(id).toMatch(UUID);
  expect(new Set(created).size).toBe(created.length);
});
