import type { Problem } from '../problem.ts';
import { quote } from '../setting.ts';
import type { KeyPath, YamlFile } from '../yaml-file.ts';
import { unjudgedFilters } from './judging.ts';
import { idleFilters, type Misplaced, orderMistakes } from './order.ts';
import type { Named, Outline } from './outline.ts';

/** What does not fit together in a file (decisions 1.4), and what does but changes nothing. */
export interface Findings {
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

/** Looks at the pieces of a file that name each other, and at the order of filters. */
export function checkReferences(outline: Outline, { position }: YamlFile): Findings {
  const { listeners, chains, complete } = outline;
  const problem = (path: KeyPath, text: string): Problem => ({ at: position(path), text });
  const placed = ({ filter, text }: Misplaced) => problem(filter.path, text);
  const filters = chains.flatMap((chain) => chain.filters);
  const chainNames = chains.flatMap(({ name }) => name ?? []);
  const clusters = [...outline.clusters, ...filters.flatMap((filter) => filter.clusters)];
  const toChains = listeners.flatMap((listener) => listener.chains);
  const toClusters = filters.flatMap((filter) => filter.routes);

  const twice = (what: string, names: readonly Named[]) =>
    names
      .filter(({ name }, index) => names.findIndex((other) => other.name === name) < index)
      .map(({ name, path }) => problem(path, `a ${what} of the name ${quote(name)} stands before it`));
  const dangling = (what: string, references: readonly Named[], names: readonly Named[]) =>
    references
      .filter(({ name }) => complete && !names.some((other) => other.name === name))
      .map(({ name, path }) => problem(path, `there is no ${what} ${quote(name)}; ${known(what, names)}`));
  const unused = (what: string, names: readonly Named[], references: readonly Named[], by: string) =>
    names
      .filter(({ name }) => !references.some((other) => other.name === name))
      .map(({ name, path }) => problem(path, `${what} ${quote(name)} has no effect: no ${by} names it`));

  const ways = listeners.map((listener) =>
    listener.chains.flatMap(({ name }) => chains.find((chain) => chain.name?.name === name)?.filters ?? []),
  );
  const mistakes = ways.flatMap(orderMistakes).map(placed);
  const unjudged = ways.flatMap((way, index) =>
    unjudgedFilters(way).map(({ filter, text }) => {
      const chain = chains.find((each) => each.filters.includes(filter));
      const where = `listener ${quote(listeners[index]?.name?.name ?? '')}, chain ${quote(chain?.name?.name ?? '')}`;
      return problem(filter.path, `${where}: ${text}`);
    }),
  );
  return {
    problems: [
      ...twice(
        'listener',
        listeners.flatMap(({ name }) => name ?? []),
      ),
      ...twice('chain', chainNames),
      ...twice('cluster', clusters),
      ...dangling('chain', toChains, chainNames),
      ...dangling('cluster', toClusters, clusters),
      ...(outline.skipValidation ? [] : mistakes),
    ],
    warnings: [
      ...unused('chain', chainNames, toChains, 'listener'),
      ...unused('cluster', clusters, toClusters, 'route'),
      ...ways.flatMap(idleFilters).map(placed),
      ...unjudged,
      ...(outline.skipValidation ? mistakes : []),
    ],
  };
}

function known(what: string, names: readonly Named[]): string {
  return `${what}s: ${names.map(({ name }) => quote(name)).join(', ') || 'none'}`;
}
