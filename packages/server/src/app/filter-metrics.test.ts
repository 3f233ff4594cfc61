import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { compile } from '../http/chain.ts';
import { exchangeParts } from '../http/exchange.fixture.ts';
import { rpcError } from '../http/outcome.ts';
import { McpExchange, type McpFilter, type McpOutcome } from '../mcp/exchange.ts';
import { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';

// Time advances only in filters.
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const RESULT: McpOutcome = { kind: 'result', json: '{}' };

/** Chain of these filters, and its counters by filter: continue, reject, other, errors and milliseconds. */
function counted(filters: Readonly<Record<string, McpFilter>>): {
  chain: McpFilter;
  counts: () => Record<string, number[]>;
} {
  const metrics = new ServiceMetrics();
  const chain = compile(
    Object.entries(filters).map(([name, filter]) => ({ name, filter })),
    metrics,
  );
  const counts = () =>
    Object.fromEntries(
      Object.entries(metrics.snapshot().filters).map(([name, { duration, ...counters }]) => {
        const { requests_continue, requests_reject, requests_other, errors } = counters;
        expect(duration.count).toBe(requests_continue + requests_reject + requests_other + errors);
        return [name, [requests_continue, requests_reject, requests_other, errors, duration.total_ms]];
      }),
    );
  return { chain, counts };
}

const exchange = () => new McpExchange(...exchangeParts());

/** Filter that blocks for this many milliseconds. */
function busy(ms: number, outcome?: McpOutcome): McpFilter {
  return () => {
    vi.advanceTimersByTime(ms);
    return outcome;
  };
}

/** Filter that waits for this many milliseconds. */
function waiting(ms: number, outcome?: McpOutcome): McpFilter {
  return () => new Promise((resolve) => setTimeout(resolve, ms, outcome));
}

function throwing(ms: number): McpFilter {
  return () => {
    vi.advanceTimersByTime(ms);
    throw new Error('broken');
  };
}

describe('a chain counts', () => {
  it('count filters that pass a request on or respond, but not those after them', () => {
    const { chain, counts } = counted({ a: busy(0), b: busy(0), c: busy(0, RESULT), d: busy(0) });
    chain(exchange());
    chain(exchange());
    expect(counts()).toEqual({ a: [2, 0, 0, 0, 0], b: [2, 0, 0, 0, 0], c: [0, 0, 2, 0, 0], d: [0, 0, 0, 0, 0] });
  });

  it.each<[string, McpOutcome]>([
    ['a JSON-RPC error', rpcError(-32602, 'no')],
    ['a JSON-RPC error with a status', rpcError(-32600, 'no', 404)],
    ['a plain 400', { kind: 'plain', status: 400 }],
    ['a plain 503', { kind: 'plain', status: 503 }],
  ])('%s as rejected', (_name, outcome) => {
    const { chain, counts } = counted({ a: busy(0, outcome) });
    chain(exchange());
    expect(counts()).toEqual({ a: [0, 1, 0, 0, 0] });
  });

  it.each<[string, McpOutcome]>([
    ['a result', RESULT],
    ['a plain 202', { kind: 'plain', status: 202 }],
    ['a redirect', { kind: 'plain', status: 399 }],
    ['a deferred outcome', { kind: 'deferred', start: () => undefined }],
    ['a batch', { kind: 'batch', messages: [], hasRequests: false }],
  ])('%s as other', (_name, outcome) => {
    const { chain, counts } = counted({ a: busy(0, outcome) });
    chain(exchange());
    expect(counts()).toEqual({ a: [0, 0, 1, 0, 0] });
  });

  it('asynchronous outcomes once they are known', async () => {
    const { chain, counts } = counted({
      a: waiting(1),
      b: ({ path }) => (path === '/default/mcp' ? waiting(1, RESULT) : waiting(1, rpcError(-32600, 'no')))(exchange()),
    });
    const other = chain(exchange());
    const rejected = chain(new McpExchange(...exchangeParts({ target: '/' })));
    expect(counts()).toEqual({ a: [0, 0, 0, 0, 0], b: [0, 0, 0, 0, 0] });
    await vi.advanceTimersByTimeAsync(2);
    await Promise.all([other, rejected]);
    expect(counts()).toEqual({ a: [2, 0, 0, 0, 2], b: [0, 1, 1, 0, 2] });
  });

  it('an error once, for the filter that throws', async () => {
    const { chain, counts } = counted({ a: busy(1), b: throwing(2), c: busy(4) });
    expect(() => chain(exchange())).toThrow('broken');
    expect(counts()).toEqual({ a: [1, 0, 0, 0, 1], b: [0, 0, 0, 1, 2], c: [0, 0, 0, 0, 0] });

    const late = counted({ a: waiting(1), b: throwing(2) });
    const behind = expect(late.chain(exchange())).rejects.toThrow('broken');
    await vi.advanceTimersByTimeAsync(1);
    await behind;
    expect(late.counts()).toEqual({ a: [1, 0, 0, 0, 1], b: [0, 0, 0, 1, 2] });

    const rejecting = counted({ a: () => waiting(3)(exchange()), b: async () => throwing(5)(exchange()), c: busy(1) });
    const failed = expect(rejecting.chain(exchange())).rejects.toThrow('broken');
    await vi.advanceTimersByTimeAsync(3);
    await failed;
    expect(rejecting.counts()).toEqual({ a: [1, 0, 0, 0, 3], b: [0, 0, 0, 1, 5], c: [0, 0, 0, 0, 0] });
  });

  it('the time of each filter, waiting included', async () => {
    const { chain, counts } = counted({ a: busy(1), b: waiting(10), c: busy(100), d: waiting(1000, RESULT) });
    const outcome = chain(exchange());
    await vi.advanceTimersByTimeAsync(1010);
    expect(await outcome).toBe(RESULT);
    expect(counts()).toEqual({ a: [1, 0, 0, 0, 1], b: [1, 0, 0, 0, 10], c: [1, 0, 0, 0, 100], d: [0, 0, 1, 0, 1000] });
  });

  it('no time of a deferred outcome', () => {
    const { chain, counts } = counted({ a: busy(1, { kind: 'deferred', start: () => undefined }) });
    chain(exchange());
    vi.advanceTimersByTime(50);
    expect(counts()).toEqual({ a: [0, 0, 1, 0, 1] });
  });

  it('the time of concurrent requests separately', async () => {
    const waits = [10, 30];
    const { chain, counts } = counted({ a: () => waiting(waits.shift() ?? 0)(exchange()), b: busy(0, RESULT) });
    const both = [chain(exchange()), chain(exchange())];
    await vi.advanceTimersByTimeAsync(10);
    expect(counts()).toEqual({ a: [1, 0, 0, 0, 10], b: [0, 0, 1, 0, 0] });
    await vi.advanceTimersByTimeAsync(20);
    await Promise.all(both);
    expect(counts()).toEqual({ a: [2, 0, 0, 0, 40], b: [0, 0, 2, 0, 0] });
  });

  it('a filter of two chains under one name', () => {
    const metrics = new ServiceMetrics();
    const filters = [{ name: 'a', filter: busy(1) }];
    for (const chain of [compile(filters, metrics), compile([...filters, ...filters], metrics)]) chain(exchange());
    expect(metrics.snapshot().filters.a?.requests_continue).toBe(3);
  });
});
