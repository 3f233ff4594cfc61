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
function named(name: string, outcome?: Outcome, waits = false): NamedFilter {
  return {
    name,
    filter: ({ metadata }) => {
      metadata.set('trace', (metadata.get('trace') ?? '') + name);
      return waits ? Promise.resolve(outcome) : outcome;
    },
  };
}

const chainOf = (...filters: NamedFilter[]) => compile(filters, new ServiceMetrics());

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

  it('counts a filter with parts by the part that serves a request, also if it waits or fails', async () => {
    const metrics = new ServiceMetrics();
    const failing: Filter = () => Promise.reject(new Error('broken'));
    const chain = compile(
      [
        { ...named('a', undefined, true), partOf: ({ path }) => path },
        { name: 'b', filter: (each) => (each.path === '/x' ? plain(200) : failing(each)), partOf: ({ path }) => path },
        named('c'),
      ],
      metrics,
    );
    const at = (target: string) => new HttpExchange(...exchangeParts({ target }));
    const request = at('/x');
    expect(Object.keys(metrics.snapshot().filters)).toEqual(['a', 'b', 'c']);
    expect(await chain(request)).toEqual(plain(200));
    expect(request.facts.filter).toBe('b');
    await expect(chain(at('/y'))).rejects.toThrow('broken');
    const { filters } = metrics.snapshot();
    expect(
      Object.entries(filters).map(([name, { requests_continue, requests_other, errors }]) => [
        name,
        [requests_continue, requests_other, errors],
      ]),
    ).toEqual([
      ['a /x', [1, 0, 0]],
      ['a /y', [1, 0, 0]],
      ['b /x', [0, 1, 0]],
      ['b /y', [0, 0, 1]],
      ['c', [0, 0, 0]],
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
    const thrower: NamedFilter = {
      name: 'thrower',
      filter: () => {
        throw broken;
      },
    };
    const late: NamedFilter = { name: 'late', filter: () => Promise.reject(broken) };
    expect(() => chainOf(named('a'), thrower)(exchange())).toThrow(broken);
    for (const chain of [chainOf(named('a', undefined, true), thrower, named('b', plain(200))), chainOf(late)]) {
      await expect(chain(exchange())).rejects.toBe(broken);
    }
  });
});
