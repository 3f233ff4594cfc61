import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Chain, compile, type Filter } from '../http/chain.ts';
import { type Outcome, RequestContext, rpcError } from '../http/context.ts';
import { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';

// Time stands still but where a filter takes some.
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const RESULT: Outcome = { kind: 'result', json: '{}' };

/** A chain of these filters, and what it has counted: continue, reject, other, errors and milliseconds, by filter. */
function counted(filters: Readonly<Record<string, Filter>>): { chain: Chain; counts: () => Record<string, number[]> } {
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

const context = () => new RequestContext('POST', '/default/mcp', {}, Buffer.alloc(0));

/** A filter that is busy for so many milliseconds. */
function busy(ms: number, outcome?: Outcome): Filter {
  return () => {
    vi.advanceTimersByTime(ms);
    return outcome;
  };
}

/** A filter that waits for so many milliseconds. */
function waiting(ms: number, outcome?: Outcome): Filter {
  return () => new Promise((resolve) => setTimeout(resolve, ms, outcome));
}

function throwing(ms: number): Filter {
  return () => {
    vi.advanceTimersByTime(ms);
    throw new Error('broken');
  };
}

describe('a chain counts', () => {
  it('who passed a request on and who answered it, and nobody whom it did not reach', () => {
    const { chain, counts } = counted({ a: busy(0), b: busy(0), c: busy(0, RESULT), d: busy(0) });
    chain(context());
    chain(context());
    expect(counts()).toEqual({ a: [2, 0, 0, 0, 0], b: [2, 0, 0, 0, 0], c: [0, 0, 2, 0, 0], d: [0, 0, 0, 0, 0] });
  });

  it.each<[string, Outcome]>([
    ['a JSON-RPC error', rpcError(-32602, 'no')],
    ['a JSON-RPC error with a status', rpcError(-32600, 'no', 404)],
    ['a plain 400', { kind: 'plain', status: 400 }],
    ['a plain 503', { kind: 'plain', status: 503 }],
  ])('%s as rejected', (_name, outcome) => {
    const { chain, counts } = counted({ a: busy(0, outcome) });
    chain(context());
    expect(counts()).toEqual({ a: [0, 1, 0, 0, 0] });
  });

  it.each<[string, Outcome]>([
    ['a result', RESULT],
    ['a plain 202', { kind: 'plain', status: 202 }],
    ['a redirect', { kind: 'plain', status: 399 }],
    ['a stream', { kind: 'stream', start: () => undefined }],
    ['a batch', { kind: 'batch', messages: [], asks: false }],
  ])('%s as answered otherwise', (_name, outcome) => {
    const { chain, counts } = counted({ a: busy(0, outcome) });
    chain(context());
    expect(counts()).toEqual({ a: [0, 0, 1, 0, 0] });
  });

  it('late outcomes like early ones, when they are there', async () => {
    const { chain, counts } = counted({
      a: waiting(1),
      b: ({ path }) => (path === '/default/mcp' ? waiting(1, RESULT) : waiting(1, rpcError(-32600, 'no')))(context()),
    });
    const other = chain(context());
    const rejected = chain(new RequestContext('POST', '/', {}, Buffer.alloc(0)));
    expect(counts()).toEqual({ a: [0, 0, 0, 0, 0], b: [0, 0, 0, 0, 0] });
    await vi.advanceTimersByTimeAsync(2);
    await Promise.all([other, rejected]);
    expect(counts()).toEqual({ a: [2, 0, 0, 0, 2], b: [0, 1, 1, 0, 2] });
  });

  it('a failure once, for the filter whose it is', async () => {
    const { chain, counts } = counted({ a: busy(1), b: throwing(2), c: busy(4) });
    expect(() => chain(context())).toThrow('broken');
    expect(counts()).toEqual({ a: [1, 0, 0, 0, 1], b: [0, 0, 0, 1, 2], c: [0, 0, 0, 0, 0] });

    const late = counted({ a: waiting(1), b: throwing(2) });
    const behind = expect(late.chain(context())).rejects.toThrow('broken');
    await vi.advanceTimersByTimeAsync(1);
    await behind;
    expect(late.counts()).toEqual({ a: [1, 0, 0, 0, 1], b: [0, 0, 0, 1, 2] });

    const rejecting = counted({ a: () => waiting(3)(context()), b: async () => throwing(5)(context()), c: busy(1) });
    const failed = expect(rejecting.chain(context())).rejects.toThrow('broken');
    await vi.advanceTimersByTimeAsync(3);
    await failed;
    expect(rejecting.counts()).toEqual({ a: [1, 0, 0, 0, 3], b: [0, 0, 0, 1, 5], c: [0, 0, 0, 0, 0] });
  });

  it('to each filter its own time, waiting included', async () => {
    const { chain, counts } = counted({ a: busy(1), b: waiting(10), c: busy(100), d: waiting(1000, RESULT) });
    const outcome = chain(context());
    await vi.advanceTimersByTimeAsync(1010);
    expect(await outcome).toBe(RESULT);
    expect(counts()).toEqual({ a: [1, 0, 0, 0, 1], b: [1, 0, 0, 0, 10], c: [1, 0, 0, 0, 100], d: [0, 0, 1, 0, 1000] });
  });

  it('nothing of what a stream does later', () => {
    const { chain, counts } = counted({ a: busy(1, { kind: 'stream', start: () => undefined }) });
    chain(context());
    vi.advanceTimersByTime(50);
    expect(counts()).toEqual({ a: [0, 0, 1, 0, 1] });
  });

  it('requests that wait at the same time each with its own time', async () => {
    const waits = [10, 30];
    const { chain, counts } = counted({ a: () => waiting(waits.shift() ?? 0)(context()), b: busy(0, RESULT) });
    const both = [chain(context()), chain(context())];
    await vi.advanceTimersByTimeAsync(10);
    expect(counts()).toEqual({ a: [1, 0, 0, 0, 10], b: [0, 0, 1, 0, 0] });
    await vi.advanceTimersByTimeAsync(20);
    await Promise.all(both);
    expect(counts()).toEqual({ a: [2, 0, 0, 0, 40], b: [0, 0, 2, 0, 0] });
  });

  it('a filter that stands in two chains under one name in one place', () => {
    const metrics = new ServiceMetrics();
    const filters = [{ name: 'a', filter: busy(1) }];
    for (const chain of [compile(filters, metrics), compile([...filters, ...filters], metrics)]) chain(context());
    expect(metrics.snapshot().filters.a?.requests_continue).toBe(3);
  });
});
