import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { InFlightCalls, type Watched } from './in-flight.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

class Call implements Watched {
  readonly startedAt: number;
  activeAt: number;
  slot = -1;
  lasting = false;
  lasted = 0;
  readonly told: string[] = [];

  constructor(now: number) {
    this.startedAt = now;
    this.activeAt = now;
  }

  onLasting(): void {
    this.lasted++;
  }

  onDeadline(limit: 'silence' | 'total'): void {
    this.told.push(limit);
  }
}

function watched(deadlines: InFlightCalls<Call>): Call {
  const call = new Call(deadlines.now());
  deadlines.watch(call);
  return call;
}

it('a silent call is told soon after the limit, not before it, and once', () => {
  const deadlines = new InFlightCalls<Call>({ silenceMs: 1_000, totalMs: 60_000 });
  const call = watched(deadlines);
  vi.advanceTimersByTime(1_000);
  expect(call.told).toEqual([]);
  vi.advanceTimersByTime(300);
  expect(call.told).toEqual(['silence']);
  vi.advanceTimersByTime(120_000);
  expect(call.told).toEqual(['silence']);
  deadlines.close();
});

it('a call that shows life goes on until its whole time is over', () => {
  const deadlines = new InFlightCalls<Call>({ silenceMs: 1_000, totalMs: 5_000 });
  const call = watched(deadlines);
  for (let elapsed = 0; elapsed < 5_000; elapsed += 500) {
    vi.advanceTimersByTime(500);
    call.activeAt = deadlines.now();
  }
  expect(call.told).toEqual([]);
  vi.advanceTimersByTime(500);
  expect(call.told).toEqual(['total']);
  deadlines.close();
});

it('a call that ended is told nothing, and neither is one after the end of all', () => {
  const deadlines = new InFlightCalls<Call>({ silenceMs: 1_000, totalMs: 5_000 });
  const ended = watched(deadlines);
  deadlines.unwatch(ended);
  const left = watched(deadlines);
  deadlines.close();
  vi.advanceTimersByTime(10_000);
  expect([ended.told, left.told]).toEqual([[], []]);
});

it('limits of hours are looked at every second, those of milliseconds every few', () => {
  const long = new InFlightCalls<Call>({ silenceMs: 300_000, totalMs: 3_600_000 });
  const short = new InFlightCalls<Call>({ silenceMs: 1, totalMs: 3_600_000 });
  const [patient, hasty] = [watched(long), watched(short)];
  vi.advanceTimersByTime(20);
  expect(hasty.told).toEqual(['silence']);
  vi.advanceTimersByTime(300_000 - 20);
  expect(patient.told).toEqual([]);
  vi.advanceTimersByTime(1_000);
  expect(patient.told).toEqual(['silence']);
  long.close();
  short.close();
});

it('a call may unwatch others while it is told', () => {
  const deadlines = new InFlightCalls<Call>({ silenceMs: 1_000, totalMs: 5_000 });
  const first = watched(deadlines);
  const second = watched(deadlines);
  first.onDeadline = () => deadlines.unwatch(second);
  vi.advanceTimersByTime(2_000);
  expect(second.told).toEqual([]);
  deadlines.close();
});

it('a call that lasts is told so once', () => {
  const calls = new InFlightCalls<Call>({ silenceMs: 60_000, totalMs: 60_000 });
  const call = watched(calls);
  vi.advanceTimersByTime(400);
  expect(call.lasted).toBe(0);
  vi.advanceTimersByTime(2_000);
  expect(call.lasted).toBe(1);
  vi.advanceTimersByTime(10_000);
  expect(call.lasted).toBe(1);
  calls.close();
});

it('the call that a message means is found among all that are under way', () => {
  const calls = new InFlightCalls<Call>({ silenceMs: 60_000, totalMs: 60_000 });
  const [one, two] = [watched(calls), watched(calls)];
  expect(calls.find((call) => call === two)).toBe(two);
  calls.unwatch(one);
  expect(calls.find((call) => call === one)).toBeUndefined();
  calls.close();
});
