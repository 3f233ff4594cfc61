import { setImmediate } from 'node:timers/promises';
import type { ToolCallEvent } from '@sluice/contract';
import { ReconnectDelay } from '@sluice/protocol/timing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { connect } from '../connection/connect.ts';
import type { Context } from '../context.ts';
import type { GlobalOptions } from '../options.ts';
import { createOutput } from '../output/output.ts';
import { type ScriptedTerminal, scriptedTerminal } from '../testing/scripted-terminal.ts';
import { startedEvent } from './event.fixture.ts';
import type { EventFilter } from './event.ts';
import { encodeEvent, type Management, startManagement } from './management.fixture.ts';
import { followEvents } from './tool-calls.ts';

// The test controls the responses and failures of the service.

const [a, b, c, d] = [startedEvent('a'), startedEvent('b'), startedEvent('c'), startedEvent('d')];
const failed = (toolName: string): ToolCallEvent => ({
  ...startedEvent(toolName),
  eventType: 'FAILED',
  duration: 1.25,
  outcome: 'failed',
  errorCategory: 'UNKNOWN',
  errorMessage: 'no\u001b[31m!',
});

let management: Management;
let terminal: ScriptedTerminal;
let following: Promise<void> | undefined;
beforeEach(async () => {
  management = await startManagement();
  terminal = scriptedTerminal();
});
afterEach(async () => {
  vi.useRealTimers();
  terminal.interrupt();
  await following?.catch(() => undefined);
  management.close();
});

interface Settings {
  readonly filter?: EventFilter;
  readonly latest?: number;
  readonly output?: GlobalOptions['output'];
  readonly delays?: ReconnectDelay;
}

function begin({
  filter = {},
  latest,
  output = 'table',
  delays = new ReconnectDelay({ firstMs: 1, maxMs: 1 }),
}: Settings = {}) {
  const options: Omit<GlobalOptions, 'auth'> = {
    host: management.host,
    insecure: false,
    output,
    plain: false,
    verbose: false,
  };
  // A token that is renewed each time.
  let renewals = 0;
  const auth = () => ({ kind: 'token', token: `T${renewals}`, from: 'option' }) as const;
  const context: Context = {
    terminal,
    options: () => ({ ...options, auth: auth() }),
    connect: (how) => {
      renewals += 1;
      return connect(context.options(), terminal, how);
    },
    output: () => createOutput(context.options(), terminal),
  };
  following = followEvents(context, filter, latest, delays);
  following.catch(() => undefined);
  return following;
}

const tools = () => [...terminal.out().matchAll(/^.{24} {2}\w{8} {2}\w+ +(\S+)/gm)].map(([, name]) => name);
const errorLines = () => terminal.err().replaceAll(management.host, 'HOST').split('\n').slice(0, -1);
const FOLLOWING = 'sluice: following tool calls at HOST; press Ctrl-C to stop';
const RECONNECTED = 'sluice: reconnected; no events were missed';

describe('events are printed as they arrive', () => {
  it('one line each, sanitized, without earlier ones', async () => {
    management.recent = [c];
    begin();
    const stream = await management.stream();
    stream.write(encodeEvent(a) + encodeEvent(failed('a')));
    await expect.poll(tools).toEqual(['a', 'a']);
    expect(terminal.out()).toBe(
      `TIME                      CALL      EVENT    TOOL  NAMESPACE  SERVICE  MS  DETAIL
2026-01-02T03:04:05.678Z  00000061  STARTED  a     default    weather  -   city
2026-01-02T03:04:05.678Z  00000061  FAILED   a     default    weather  1.25  UNKNOWN: no\\u001b[31m!
`,
    );
    expect(errorLines()).toEqual([FOLLOWING]);
    expect(new Set(management.authorizations)).toEqual(new Set(['Bearer T1']));
  });

  it('only matching ones', async () => {
    begin({ filter: { tool: 'b', category: 'UNKNOWN' } });
    const stream = await management.stream();
    stream.write(
      [failed('a'), b, { ...failed('b'), errorCategory: 'EXECUTION_ERROR' as const }, failed('b')]
        .map(encodeEvent)
        .join(''),
    );
    await expect.poll(() => terminal.out()).toContain('UNKNOWN');
    expect(tools()).toEqual(['b']);
  });

  it('as one JSON object per line, with unknown members and exact numbers', async () => {
    begin({ output: 'json' });
    const stream = await management.stream();
    const data = `{"later":[1.0,12345678901234567890],"rtl":"\u202e",${JSON.stringify(a).slice(1)}`;
    stream.write(`data: ${data}\n\n${encodeEvent(b)}`);
    await expect.poll(() => terminal.out()).toBe(`${data.replace('\u202e', '\\u202e')}\n${JSON.stringify(b)}\n`);
  });

  it('after the latest matching ones, without duplicates', async () => {
    management.recent = [c, failed('x'), b, failed('w'), a];
    begin({ latest: 1, filter: { category: 'UNKNOWN' } });
    const stream = await management.stream();
    stream.write(encodeEvent(failed('x')) + encodeEvent(c) + encodeEvent(failed('y')));
    await expect.poll(tools).toEqual(['x', 'y']);
  });
});

describe('when the service becomes unavailable', () => {
  it('it reconnects, reports once and prints missed events once', async () => {
    begin();
    const stream = await management.stream();
    stream.write(encodeEvent(a));
    await expect.poll(tools).toEqual(['a']);
    management.recent = [c, b, a];
    management.reject(503, 3);
    stream.destroy();
    const again = await management.stream();
    again.write(encodeEvent(c) + encodeEvent(d));
    await expect.poll(tools).toEqual(['a', 'b', 'c', 'd']);
    expect(errorLines()).toEqual([
      FOLLOWING,
      'sluice: the connection to HOST was lost (retrying)',
      'sluice: HOST returned 503: refused (retrying)',
      RECONNECTED,
    ]);
    // Three attempts were rejected in between.
    expect(management.authorizations.at(-1)).toBe('Bearer T5');
  });

  it.each([
    ['none was read', [], 'events may have been missed if the service was restarted'],
    ['the last one read does not exist any more', [c, b], 'events may have been missed if the service was restarted'],
    [
      'there were more than are kept',
      Array.from({ length: 1000 }, (_, at) => startedEvent(`${at}`)),
      'events were missed: only the latest 1000 are available',
    ],
  ])('a warning about missed events is printed where %s', async (_when, stored, cost) => {
    management.recent = stored.length === 0 ? [] : [a];
    begin();
    const stream = await management.stream();
    await expect.poll(errorLines).toEqual([FOLLOWING]);
    management.recent = stored;
    stream.end();
    await management.stream();
    await expect
      .poll(errorLines)
      .toEqual([FOLLOWING, 'sluice: HOST closed the stream (retrying)', `sluice: reconnected; ${cost}`]);
    expect(tools()).toEqual(stored.map(({ toolName }) => toolName).reverse());
  });

  it('before the first connection, the command fails', async () => {
    management.reject(503, 1);
    await expect(begin()).rejects.toMatchObject({ status: 503 });
    expect(errorLines()).toEqual([]);
  });

  it('and returns without a list, the stream is closed and it reconnects', async () => {
    management.recent = [a];
    begin();
    const stream = await management.stream();
    await expect.poll(errorLines).toEqual([FOLLOWING]);
    management.reject(502, 1, 'list');
    stream.end();
    const withoutEvents = await management.stream();
    const closed = new Promise((resolve) => withoutEvents.once('close', resolve));
    (await management.stream()).write(encodeEvent(b));
    await expect.poll(tools).toEqual(['b']);
    await closed;
    expect(errorLines().slice(2)).toEqual(['sluice: HOST returned 502: refused (retrying)', RECONNECTED]);
  });

  it.each([401, 403, 404])('and then rejects with %i, the command fails', async (status) => {
    const following = begin();
    const stream = await management.stream();
    await expect.poll(errorLines).toEqual([FOLLOWING]);
    management.reject(status, 1);
    stream.end();
    await expect(following).rejects.toMatchObject({ status });
  });

  it('silently, the idle timeout reconnects', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    begin();
    while (errorLines().length === 0) await setImmediate();
    for (let minutes = 0; errorLines().length === 1 && minutes < 1000; minutes += 1) {
      vi.advanceTimersByTime(60_000);
      await setImmediate();
    }
    expect(errorLines()).toEqual([FOLLOWING, 'sluice: no response from HOST for 60 s (retrying)']);
  });

  it('delays increase, and reset after a stable connection', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const delays = new ReconnectDelay({ firstMs: 1, maxMs: 2 });
    const [next, reset] = [vi.spyOn(delays, 'next'), vi.spyOn(delays, 'reset')];
    begin({ delays });
    for (const [waits, lastsMs] of [1_000, 15_000].entries()) {
      const stream = await management.stream();
      await expect.poll(() => errorLines().length).toBe(1 + 2 * waits);
      vi.advanceTimersByTime(lastsMs);
      stream.end();
      await expect.poll(() => next.mock.calls.length).toBe(waits + 1);
      expect(reset).toHaveBeenCalledTimes(waits);
    }
    // A repeated event is printed again.
    expect(errorLines().filter((line) => line.includes('closed the stream'))).toHaveLength(2);
  });
});

describe('an invalid event stream', () => {
  it.each(['{', '{}', '{"eventId":7}'])('is not printed: %s', async (data) => {
    const following = begin();
    const stream = await management.stream();
    stream.write(`data: ${data}\n\n`);
    await expect(following).rejects.toThrow('is not the management API');
    expect(terminal.out()).toBe('');
  });

  it('is not waited for', async () => {
    management.reject(200, 1);
    await expect(begin()).rejects.toThrow('is not the management API');
  });
});

describe('the command ends', () => {
  it.each([
    ['with Ctrl-C', () => terminal.interrupt()],
    ['when nobody reads any more', () => terminal.closeReader()],
  ])('%s, and closes the stream', async (_how, end) => {
    const following = begin();
    const stream = await management.stream();
    const closed = new Promise((resolve) => stream.once('close', resolve));
    await expect.poll(errorLines).toEqual([FOLLOWING]);
    end();
    await following;
    await closed;
    expect(errorLines()).toEqual([FOLLOWING]);
  });

  it('with Ctrl-C while it waits for the service', async () => {
    const following = begin({ delays: new ReconnectDelay({ firstMs: 1_000_000, maxMs: 1_000_000 }) });
    const stream = await management.stream();
    await expect.poll(errorLines).toEqual([FOLLOWING]);
    stream.end();
    await expect.poll(() => errorLines().length).toBe(2);
    terminal.interrupt();
    await following;
  });
});
