import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { OPEN_RESPONSE_TIMES, type OpenResponse, OpenResponses } from './open-responses.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

class Response implements OpenResponse {
  index = -1;
  dueAt = 0;
  hasEnded = false;
  accepts = true;
  readonly isResumable: boolean;
  /** Times at which something was sent. */
  readonly sentAt: number[] = [];
  readonly #start = performance.now();

  constructor(isResumable = false) {
    this.isResumable = isResumable;
  }

  keepAlive(): boolean {
    if (this.accepts) this.sentAt.push(performance.now() - this.#start);
    return this.accepts;
  }
}

function added(responses: OpenResponses, response = new Response()): Response {
  responses.add(response, performance.now());
  return response;
}

it.each([
  ['after 2 s', false, 2_000],
  ['after 500 ms if it can be resumed', true, 500],
])('a response without an answer begins %s, and has comments at least every 15 s', (_when, isResumable, headMs) => {
  const response = added(new OpenResponses(), new Response(isResumable));
  vi.advanceTimersByTime(headMs - 1);
  expect(response.sentAt).toEqual([]);
  vi.advanceTimersByTime(120_000);
  const [first = 0] = response.sentAt;
  expect(first - headMs).toBeLessThanOrEqual(250);
  for (const [at, time] of response.sentAt.entries()) {
    const gap = time - (response.sentAt[at - 1] ?? time);
    expect(gap).toBeLessThanOrEqual(15_000);
  }
  // No more often than needed.
  expect(response.sentAt).toHaveLength(9);
});

it('counts from the arrival of the request, before our own checks', () => {
  const responses = new OpenResponses();
  const response = new Response();
  responses.add(response, performance.now() - 10_000);
  vi.advanceTimersByTime(250);
  expect(response.sentAt).toEqual([250]);
});

it('a quick response leaves nothing behind, whatever its place', () => {
  const responses = new OpenResponses();
  const all = Array.from({ length: 5 }, () => added(responses));
  for (const at of [4, 0, 2, 3]) {
    const response = all[at];
    if (response) {
      responses.remove(response);
      responses.remove(response);
    }
  }
  expect([responses.size, all.map(({ index }) => index)]).toEqual([1, [-1, 0, -1, -1, -1]]);
  vi.advanceTimersByTime(3_000);
  expect(all.map(({ sentAt }) => sentAt.length)).toEqual([0, 1, 0, 0, 0]);
});

it('one that has ended without being removed is dropped at the next check', () => {
  const responses = new OpenResponses();
  const [one, two] = [added(responses), added(responses)];
  one.hasEnded = true;
  vi.advanceTimersByTime(250);
  expect([responses.size, one.sentAt, two.index]).toEqual([1, [], 0]);
});

it('one whose client accepts nothing before its answer is asked once', () => {
  const responses = new OpenResponses();
  const response = added(responses);
  response.accepts = false;
  const other = added(responses);
  vi.advanceTimersByTime(2_250);
  expect([responses.size, response.index, other.sentAt.length]).toEqual([1, -1, 1]);
});

it('an answer that one of them causes may remove others', () => {
  const responses = new OpenResponses();
  const all = Array.from({ length: 4 }, () => added(responses));
  const last = all[3];
  if (last) {
    last.keepAlive = () => {
      for (const response of all) responses.remove(response);
      return true;
    };
  }
  vi.advanceTimersByTime(20_000);
  expect([responses.size, all.flatMap(({ sentAt }) => sentAt)]).toEqual([0, []]);
});

it('one timer checks all, and none runs without responses', () => {
  const responses = new OpenResponses();
  expect(vi.getTimerCount()).toBe(0);
  const all = Array.from({ length: 100 }, () => added(responses));
  expect(vi.getTimerCount()).toBe(1);
  for (const response of all) responses.remove(response);
  vi.advanceTimersByTime(OPEN_RESPONSE_TIMES.stepMs);
  expect(vi.getTimerCount()).toBe(0);
  const late = added(responses);
  vi.advanceTimersByTime(2_250);
  expect(late.sentAt).toHaveLength(1);
});
