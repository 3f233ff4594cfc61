import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { NO_CLIENT } from './client-facts.ts';
import { type InFlightCall, InFlightCalls } from './in-flight-calls.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

class Call implements InFlightCall {
  readonly client = NO_CLIENT;
  readonly startedAt: number;
  lastActivityAt: number;
  index = -1;
  readonly received: string[] = [];

  constructor(now: number) {
    this.startedAt = now;
    this.lastActivityAt = now;
  }

  cancel(): void {}

  onDeadline(limit: 'idle' | 'total'): void {
    this.received.push(limit);
  }
}

function watched(deadlines: InFlightCalls): Call {
  const call = new Call(performance.now());
  deadlines.add(call);
  return call;
}

it('a silent call times out once, soon after the limit and not before', () => {
  const deadlines = new InFlightCalls({ idleMs: 1_000, totalMs: 60_000 });
  const call = watched(deadlines);
  vi.advanceTimersByTime(1_000);
  expect(call.received).toEqual([]);
  vi.advanceTimersByTime(300);
  expect(call.received).toEqual(['idle']);
  vi.advanceTimersByTime(120_000);
  expect(call.received).toEqual(['idle']);
  deadlines.close();
});

it('an active call continues until its total time is over', () => {
  const deadlines = new InFlightCalls({ idleMs: 1_000, totalMs: 5_000 });
  const call = watched(deadlines);
  for (let elapsed = 0; elapsed < 5_000; elapsed += 500) {
    vi.advanceTimersByTime(500);
    call.lastActivityAt = performance.now();
  }
  expect(call.received).toEqual([]);
  vi.advanceTimersByTime(500);
  expect(call.received).toEqual(['total']);
  deadlines.close();
});

it('no deadline fires for a call that was removed, nor after close', () => {
  const deadlines = new InFlightCalls({ idleMs: 1_000, totalMs: 5_000 });
  const ended = watched(deadlines);
  deadlines.remove(ended);
  const left = watched(deadlines);
  deadlines.close();
  vi.advanceTimersByTime(10_000);
  expect([ended.received, left.received]).toEqual([[], []]);
});

it('limits of hours are checked every second, limits of milliseconds every few', () => {
  const long = new InFlightCalls({ idleMs: 300_000, totalMs: 3_600_000 });
  const short = new InFlightCalls({ idleMs: 1, totalMs: 3_600_000 });
  const [patient, hasty] = [watched(long), watched(short)];
  vi.advanceTimersByTime(20);
  expect(hasty.received).toEqual(['idle']);
  vi.advanceTimersByTime(300_000 - 20);
  expect(patient.received).toEqual([]);
  vi.advanceTimersByTime(1_000);
  expect(patient.received).toEqual(['idle']);
  long.close();
  short.close();
});

it('a callback may remove other calls', () => {
  const deadlines = new InFlightCalls({ idleMs: 1_000, totalMs: 5_000 });
  const first = watched(deadlines);
  const second = watched(deadlines);
  first.onDeadline = () => deadlines.remove(second);
  vi.advanceTimersByTime(2_000);
  expect(second.received).toEqual([]);
  deadlines.close();
});

it('the call that a message refers to is found among all in flight', () => {
  const calls = new InFlightCalls({ idleMs: 60_000, totalMs: 60_000 });
  const [one, two] = [watched(calls), watched(calls)];
  expect(calls.find((call) => call === two)).toBe(two);
  calls.remove(one);
  expect(calls.find((call) => call === one)).toBeUndefined();
  calls.close();
});
