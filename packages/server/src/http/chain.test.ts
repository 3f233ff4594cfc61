import { describe, expect, it } from 'vitest';
import { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { compile, type NamedFilter } from './chain.ts';
import { type Outcome, RequestContext } from './context.ts';

function context(): RequestContext {
  return new RequestContext('POST', '/default/mcp', {}, Buffer.alloc(0));
}

const answer = (status: number): Outcome => ({ kind: 'plain', status });

/** A filter that leaves its name in the metadata and then does as told. */
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
  it('runs its filters in order until one answers', () => {
    const request = context();
    const chain = chainOf(named('a'), named('b'), named('c', answer(200)), named('d', answer(500)));
    expect(chain(request)).toEqual(answer(200));
    expect(request.metadata.get('trace')).toBe('abc');
  });

  it('makes no promise where no filter waits', () => {
    expect(chainOf(named('a'), named('b', answer(200)))(context())).not.toBeInstanceOf(Promise);
    expect(chainOf(named('a'), named('b'))(context())).toBeUndefined();
    expect(chainOf()(context())).toBeUndefined();
  });

  it('goes on after a filter that waited, and stops at one that answers late', async () => {
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

  it('has no answer when every filter passed, waiting or not', async () => {
    expect(await chainOf(named('a', undefined, true), named('b'))(context())).toBeUndefined();
  });

  it('keeps requests that wait apart', async () => {
    const chain = chainOf(named('a', undefined, true), named('b'));
    const requests = [context(), context()];
    await Promise.all(requests.map(chain));
    expect(requests.map(({ metadata }) => metadata.get('trace'))).toEqual(['ab', 'ab']);
  });

  it('lets what a filter throws through, at once or late', async () => {
    const broken = new Error('broken');
    const thrower: NamedFilter = {
      name: 'thrower',
      filter: () => {
        throw broken;
      },
    };
    const late: NamedFilter = { name: 'late', filter: () => Promise.reject(broken) };
    expect(() => chainOf(named('a'), thrower)(context())).toThrow(broken);
    for (const chain of [chainOf(named('a', undefined, true), thrower, named('b', answer(200))), chainOf(late)]) {
      await expect(chain(context())).rejects.toBe(broken);
    }
  });
});
