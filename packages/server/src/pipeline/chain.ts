import type { Outcome } from '../answer/outcome.ts';
import type { RequestContext } from './context.ts';

/** One step of a chain: undefined passes the request on, an outcome answers it. A promise only where it must wait. */
export type Filter = (context: RequestContext) => Outcome | undefined | Promise<Outcome | undefined>;

/** A whole chain as one function; undefined when no filter answered. */
export type Chain = Filter;

/** Makes one function of the filters, run in this order. No promise is made while no filter waits. */
export function compile(filters: readonly Filter[]): Chain {
  const run = (context: RequestContext, from: number): ReturnType<Filter> => {
    for (let index = from; index < filters.length; index++) {
      const outcome = filters[index]?.(context);
      if (outcome === undefined) continue;
      if (!(outcome instanceof Promise)) return outcome;
      return outcome.then((settled) => settled ?? run(context, index + 1));
    }
    return undefined;
  };
  return (context) => run(context, 0);
}
