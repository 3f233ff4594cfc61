import { describe, expect, it } from 'vitest';
import { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { compile, type Filter, type NamedFilter } from './chain.ts';
import { RequestContext } from './context.ts';
import type { Outcome } from './outcome.ts';

function context(): RequestContext {
  return new RequestContext('POST', '/default/mcp', {}, Buffer.alloc(0));
}

const answer = (status: number): Outcome => ({ kind: 'plain', status });

/** A filter that leaves its name in the metadata and then does as told. */
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
    const request = context();
    const chain = chainOf(named('a'), named('b'), named('c', answer(200)), named('d', answer(500)));
    expect(chain(request)).toEqual(answer(200));
    expect(request.metadata.get('trace')).toBe('abc');
  });

  it('creates no promise if no filter waits', () => {
    expect(chainOf(named('a'), named('b', answer(200)))(context())).not.toBeInstanceOf(Promise);
    expect(chainOf(named('a'), named('b'))(context())).toBeUndefined();
    expect(chainOf()(context())).toBeUndefined();
  });

  it('continues after a filter that waited, and stops at one that responds asynchronously', async () => {
    const request = context();
    const chain = chainOf(
      named('a', undefined, true),
      named('b'),
      named('c', undefined, true),
      named('d', answer(200), true),
      named('e'),
    );
    expect(await chain(request)).toEqual(answer(200));
    expect(request.metadata.get('trace')).toBe('abcd');
  });

  it('returns undefined if all filters pass the request on', async () => {
    expect(await chainOf(named('a', undefined, true), named('b'))(context())).toBeUndefined();
  });

  it('keeps concurrent requests separate', async () => {
    const chain = chainOf(named('a', undefined, true), named('b'));
    const requests = [context(), context()];
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
    expect(() => chainOf(named('a'), thrower)(context())).toThrow(broken);
    for (const chain of [chainOf(named('a', undefined, true), thrower, named('b', answer(200))), chainOf(late)]) {
      await expect(chain(context())).rejects.toBe(broken);
    }
  });
});
