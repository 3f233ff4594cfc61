import { describe, expect, it } from 'vitest';
import { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { compile, type Filter, type NamedFilter } from './chain.ts';
import { exchangeParts } from './exchange.fixture.ts';
import { HttpExchange } from './exchange.ts';
import type { Outcome } from './outcome.ts';

function exchange(): HttpExchange {
  return new HttpExchange(...exchangeParts());
}

const plain = (status: number): Outcome => ({ kind: 'plain', status });

/** A filter that records its name in the metadata and then runs its step. */
function named(name: string, outcome?: Outcome, waits = false): NamedFilter<Filter> {
  return {
    name,
    filter: ({ metadata }) => {
      metadata.set('trace', (metadata.get('trace') ?? '') + name);
      return waits ? Promise.resolve(outcome) : outcome;
    },
  };
}

const chainOf = (...filters: NamedFilter<Filter>[]) => compile(filters, new ServiceMetrics());

describe('a compiled chain', () => {
  it('runs filters in order until one responds', () => {
    const request = exchange();
    const chain = chainOf(named('a'), named('b'), named('c', plain(200)), named('d', plain(500)));
    expect(chain(request)).toEqual(plain(200));
    expect(request.metadata.get('trace')).toBe('abc');
  });

  it('creates no promise if no filter waits', () => {
    expect(chainOf(named('a'), named('b', plain(200)))(exchange())).not.toBeInstanceOf(Promise);
    expect(chainOf(named('a'), named('b'))(exchange())).toBeUndefined();
    expect(chainOf()(exchange())).toBeUndefined();
  });

  it('continues after a filter that waited, and stops at one that responds asynchronously', async () => {
    const request = exchange();
    const chain = chainOf(
      named('a', undefined, true),
      named('b'),
      named('c', undefined, true),
      named('d', plain(200), true),
      named('e'),
    );
    expect(await chain(request)).toEqual(plain(200));
    expect(request.metadata.get('trace')).toBe('abcd');
  });

  it('skips filters for other methods, also after one that waited, and counts them as passed', async () => {
    const metrics = new ServiceMetrics();
    const parser: NamedFilter<Filter> = {
      name: 'parser',
      filter: (request) => {
        request.rpcMethod = 'tools/call';
        return undefined;
      },
    };
    const chain = compile(
      [
        { ...named('before'), methods: ['tools/call'] },
        parser,
        { ...named('none'), methods: [] },
        { ...named('list'), methods: ['tools/list'] },
        { ...named('call'), methods: ['tools/call'] },
        named('a', undefined, true),
        { ...named('lists'), methods: ['tools/list'] },
        { ...named('calls', plain(200)), methods: ['tools/list', 'tools/call'] },
        { ...named('after'), methods: ['tools/list'] },
      ],
      metrics,
    );
    const request = exchange();
    expect(await chain(request)).toEqual(plain(200));
    expect(request.metadata.get('trace')).toBe('callacalls');
    const { filters } = metrics.snapshot();
    expect(
      Object.entries(filters).map(([name, counts]) => [name, counts.requests_continue, counts.requests_other]),
    ).toEqual([
      ...['before', 'parser', 'none', 'list', 'call', 'a', 'lists'].map((name) => [name, 1, 0]),
      ['calls', 0, 1],
      ['after', 0, 0],
    ]);
  });

  it('adds the time that filters take, waiting included', async () => {
    const metrics = new ServiceMetrics();
    const slow: Filter = () => new Promise((resolve) => setTimeout(() => resolve(undefined), 5));
    const busy: Filter = () => {
      for (const end = performance.now() + 1; performance.now() < end; );
      return undefined;
    };
    await compile(
      [
        { name: 'slow', filter: slow },
        { name: 'busy', filter: busy },
      ],
      metrics,
    )(exchange());
    const { filters } = metrics.snapshot();
    expect(filters.slow?.duration.total_ms).toBeGreaterThan(2);
    expect(filters.busy?.duration.total_ms).toBeGreaterThanOrEqual(1);
  });

  it('returns undefined if all filters pass the request on', async () => {
    expect(await chainOf(named('a', undefined, true), named('b'))(exchange())).toBeUndefined();
  });

  it('keeps concurrent requests separate', async () => {
    const chain = chainOf(named('a', undefined, true), named('b'));
    const requests = [exchange(), exchange()];
    await Promise.all(requests.map(chain));
    expect(requests.map(({ metadata }) => metadata.get('trace'))).toEqual(['ab', 'ab']);
  });

  it('propagates errors of filters, synchronous and asynchronous', async () => {
    const broken = new Error('broken');
    const thrower: NamedFilter<Filter> = {
      name: 'thrower',
      filter: () => {
        throw broken;
      },
    };
    const late: NamedFilter<Filter> = { name: 'late', filter: () => Promise.reject(broken) };
    expect(() => chainOf(named('a'), thrower)(exchange())).toThrow(broken);
    for (const chain of [chainOf(named('a', undefined, true), thrower, named('b', plain(200))), chainOf(late)]) {
      await expect(chain(exchange())).rejects.toBe(broken);
    }
  });
});
