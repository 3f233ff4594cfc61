import { isJsonObject } from '@sluice/protocol/json/parse';
import { isWildcard, type ListenAddress, normalizeHost } from '../../../http/address.ts';
import { quote } from '../../../http/settings.ts';
import type { KeyPath, Problem, YamlFile } from '../yaml-document.ts';
import type { FilterChain, PipelineListener } from './pipeline.ts';

/** Name in a pipeline file and its location. */
interface NamedLocation {
  readonly name: string;
  readonly path: KeyPath;
}

/** Properties of a filter that matter to other parts of the file. */
export interface OutlinedFilter {
  readonly path: KeyPath;
  readonly filter: string | undefined;
  readonly conditional: boolean;
  /** Clusters that the routes of a `router` reference. */
  readonly routes: readonly NamedLocation[];
  /** Clusters that a `load_balancer` defines. */
  readonly clusters: readonly NamedLocation[];
}

/**
 * Definitions and references of a pipeline file. It also exists for a file that does not match the schema, so that all
 * problems can be reported at once.
 */
interface Outline {
  readonly listeners: readonly { readonly name: NamedLocation | undefined; readonly chains: NamedLocation[] }[];
  readonly chains: readonly { readonly name: NamedLocation | undefined; readonly filters: OutlinedFilter[] }[];
  /** Clusters of the top level. */
  readonly clusters: readonly NamedLocation[];
  readonly skipValidation: boolean;
  /** False if a definition has no name or is in an invalid list: a reference may refer to it. */
  readonly complete: boolean;
}

/** Returns the outline of a file's content, which may have any form. */
function toOutline(content: unknown): Outline {
  const listeners = entries(content, 'listeners', []).map(({ value, path }) => ({
    name: located(member(value, 'name'), path),
    chains: entries(value, 'filter_chains', path).flatMap((item) => located(item.value, item.path) ?? []),
  }));
  const chains = entries(content, 'filter_chains', []).map(({ value, path }) => ({
    name: located(member(value, 'name'), path),
    filters: entries(value, 'filters', path).map(toOutlinedFilter),
  }));
  const clusters = namesIn(content, 'clusters', []);
  const clusterCount = entries(content, 'clusters', []).length;
  const balancers = chains.flatMap(({ filters }) => filters).filter(({ filter }) => filter === 'load_balancer');
  return {
    listeners,
    chains,
    clusters,
    skipValidation: member(member(content, 'insecure_options'), 'skip_pipeline_validation') === true,
    complete:
      Array.isArray(member(content, 'filter_chains')) &&
      Array.isArray(member(content, 'clusters') ?? []) &&
      chains.every(({ name }) => name) &&
      clusters.length === clusterCount &&
      balancers.every(({ hasUnnamedCluster }) => !hasUnnamedCluster),
  };
}

function toOutlinedFilter({ value, path }: Entry): OutlinedFilter & { readonly hasUnnamedCluster: boolean } {
  const clusters = namesIn(value, 'clusters', path);
  const filter = member(value, 'filter');
  return {
    path,
    filter: typeof filter === 'string' ? filter : undefined,
    conditional: entries(value, 'conditions', path).length > 0,
    routes: entries(value, 'routes', path).flatMap(
      (route) => located(member(route.value, 'cluster'), [...route.path, 'cluster']) ?? [],
    ),
    clusters,
    hasUnnamedCluster: clusters.length < entries(value, 'clusters', path).length,
  };
}

interface Entry {
  readonly value: unknown;
  readonly path: KeyPath;
}

/** Returns the items of the list under a key; none if it is not a list. */
function entries(parent: unknown, key: string, path: KeyPath): Entry[] {
  const list: unknown = member(parent, key);
  return Array.isArray(list) ? list.map((value: unknown, index) => ({ value, path: [...path, key, index] })) : [];
}

function namesIn(parent: unknown, key: string, path: KeyPath): NamedLocation[] {
  return entries(parent, key, path).flatMap((item) => located(member(item.value, 'name'), item.path) ?? []);
}

function member(value: unknown, key: string): unknown {
  return isJsonObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

function located(name: unknown, path: KeyPath): NamedLocation | undefined {
  return typeof name === 'string' && name !== '' ? { name, path } : undefined;
}

/** Contradictions in a file, and parts of it without effect. */
export interface Findings {
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

/** Checks the references between the parts of a file, and the order of filters. */
export function validateReferences({ content, position }: YamlFile): Findings {
  const outline = toOutline(content);
  const { listeners, chains, complete } = outline;
  const problem = (path: KeyPath, text: string): Problem => ({ at: position(path), text });
  const filterProblem = ({ filter, text }: FilterFinding) => problem(filter.path, text);
  const filters = chains.flatMap((chain) => chain.filters);
  const listenerNames = listeners.flatMap(({ name }) => name ?? []);
  const chainNames = chains.flatMap(({ name }) => name ?? []);
  const clusters = [...outline.clusters, ...filters.flatMap((filter) => filter.clusters)];
  const chainReferences = listeners.flatMap((listener) => listener.chains);
  const clusterReferences = filters.flatMap((filter) => filter.routes);

  const duplicates = (kind: string, names: readonly NamedLocation[]) =>
    names
      .filter(({ name }, index) => names.findIndex((other) => other.name === name) < index)
      .map(({ name, path }) => problem(path, `duplicate ${kind} name ${quote(name)}`));
  const unknown = (kind: string, references: readonly NamedLocation[], names: readonly NamedLocation[]) =>
    references
      .filter(({ name }) => complete && !names.some((other) => other.name === name))
      .map(({ name, path }) => {
        const known = names.map((other) => quote(other.name)).join(', ') || 'none';
        return problem(path, `unknown ${kind} ${quote(name)}; known ${kind}s: ${known}`);
      });
  const unused = (
    kind: string,
    names: readonly NamedLocation[],
    references: readonly NamedLocation[],
    referrer: string,
  ) =>
    names
      .filter(({ name }) => !references.some((other) => other.name === name))
      .map(({ name, path }) => problem(path, `${kind} ${quote(name)} has no effect: no ${referrer} references it`));

  const filtersByListener = listeners.map((listener) =>
    listener.chains.flatMap(({ name }) => chains.find((chain) => chain.name?.name === name)?.filters ?? []),
  );
  const orderingMistakes = filtersByListener.flatMap(findOrderingMistakes).map(filterProblem);
  const coverageGaps = filtersByListener.flatMap((each, index) =>
    findCoverageGaps(each).map(({ filter, text }) => {
      const chain = chains.find(({ filters }) => filters.includes(filter));
      const where = `listener ${quote(listeners[index]?.name?.name ?? '')}, chain ${quote(chain?.name?.name ?? '')}`;
      return problem(filter.path, `${where}: ${text}`);
    }),
  );
  return {
    problems: [
      ...duplicates('listener', listenerNames),
      ...duplicates('chain', chainNames),
      ...duplicates('cluster', clusters),
      ...unknown('chain', chainReferences, chainNames),
      ...unknown('cluster', clusterReferences, clusters),
      ...(outline.skipValidation ? [] : orderingMistakes),
    ],
    warnings: [
      ...unused('chain', chainNames, chainReferences, 'listener'),
      ...unused('cluster', clusters, clusterReferences, 'route'),
      ...filtersByListener.flatMap(findUnusedFilters).map(filterProblem),
      ...coverageGaps,
      ...(outline.skipValidation ? orderingMistakes : []),
    ],
  };
}

/** Filter in a wrong position, and the reason. */
interface FilterFinding {
  readonly filter: OutlinedFilter;
  readonly text: string;
}

/** Returns the mistakes in the order of a listener's filters. */
function findOrderingMistakes(filters: readonly OutlinedFilter[]): FilterFinding[] {
  const mistakes: FilterFinding[] = [];
  const previous = new Set<string>();
  for (const [index, outlined] of filters.entries()) {
    const { filter: name = '', conditional } = outlined;
    const addMistake = (filter: OutlinedFilter, text: string) =>
      mistakes.push({ filter, text: `filter ${filter.filter ?? '(unnamed)'} ${text}` });
    if (name.startsWith('service_') && name !== 'service_intercept' && !previous.has('mcp')) {
      addMistake(outlined, 'requires an mcp filter without conditions before it');
    }
    if (name === 'load_balancer' && !previous.has('router')) {
      addMistake(outlined, 'requires a router filter before it');
    }
    // A request that skips a conditional mcp filter has no parsed message.
    if (name !== 'mcp' || !conditional) previous.add(name);
    if (name !== 'static_response' || conditional) continue;
    const next = filters[index + 1];
    if (next) {
      addMistake(next, 'and all filters after it are unreachable; add conditions to the static_response before it');
    }
    break;
  }
  return mistakes;
}

/** Filters that only prepare a request for `load_balancer`. */
const LOAD_BALANCER_INPUT: ReadonlySet<string> = new Set(['router', 'service_intercept']);

/** Returns filters without effect: they prepare a request to be proxied, and no filter after them proxies it. */
function findUnusedFilters(filters: readonly OutlinedFilter[]): FilterFinding[] {
  const last = filters.findLastIndex(({ filter }) => filter === 'load_balancer');
  return filters
    .filter(({ filter = '' }, index) => LOAD_BALANCER_INPUT.has(filter) && index > last)
    .map((filter) => ({ filter, text: `filter ${filter.filter} has no effect without load_balancer after it` }));
}

/** The filter that answers requests which evaluators can evaluate. */
const ANSWERING = 'service_methods';

/**
 * Returns `service_evaluator` filters that miss requests: before `service_namespace` they evaluate none, and they never
 * see requests that an earlier filter answers. Filters with conditions are exempt: the conditions choose the requests
 * that are not evaluated.
 */
export function findCoverageGaps(filters: readonly OutlinedFilter[]): FilterFinding[] {
  const gaps: FilterFinding[] = [];
  let hasNamespace = false;
  let isAnswered = false;
  for (const filter of filters) {
    const { filter: name, conditional } = filter;
    const addGap = (text: string) => gaps.push({ filter, text: `filter service_evaluator ${text}` });
    if (name === 'service_namespace') hasNamespace = true;
    if (name === ANSWERING) isAnswered ||= hasNamespace && !conditional;
    if (name !== 'service_evaluator') continue;
    if (hasNamespace) {
      if (isAnswered) addGap(`misses requests that are answered before it; move it before ${ANSWERING}`);
      // Requests that skip the first evaluator filter do so by its conditions.
      break;
    }
    addGap('has no effect without service_namespace before it');
  }
  return gaps;
}

/**
 * Returns a warning for each listener that answers requests without a `service_evaluator` filter. Relevant only if evaluators are
 * registered.
 */
export function listenersWithoutEvaluators(
  listeners: readonly Pick<PipelineListener, 'name' | 'chains' | 'filters'>[],
): string[] {
  return listeners
    .filter(({ filters }) => {
      const names = filters.map(({ settings }) => settings.filter);
      return names.includes(ANSWERING) && !names.includes('service_evaluator');
    })
    .map(
      ({ name, chains }) =>
        `evaluators have no effect on listener ${quote(name)}: none of its chains (${chains.map(quote).join(', ')}) ` +
        'has the filter service_evaluator; add it after service_namespace',
    );
}

/** Listener whose address is already in use by another listener. */
export interface AddressConflict {
  readonly listener: PipelineListener;
  readonly text: string;
}

/** Returns the listeners that have the address of an earlier listener. Port 0 never conflicts. */
export function findAddressConflicts(listeners: readonly PipelineListener[]): AddressConflict[] {
  return listeners.flatMap((listener, index) => {
    const first = listeners.slice(0, index).find(({ address }) => isSameAddress(address, listener.address));
    if (!first) return [];
    const text = `listener ${quote(listener.name)} has the same address as listener ${quote(first.name)} (${first.addressAt}); use another address`;
    return [{ listener, text }];
  });
}

function isSameAddress(one: ListenAddress, other: ListenAddress): boolean {
  if (one.port === 0 || one.port !== other.port) return false;
  // A wildcard address conflicts with every address.
  return normalizeHost(one.host) === normalizeHost(other.host) || isWildcard(one.host) || isWildcard(other.host);
}

const LOOPBACK_ORIGIN = /^https?:\/\/(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/;

/**
 * Returns a warning for each `cors` filter that allows origins which the listener rejects: listeners accept loopback origins and
 * SERVICE_CORS_ORIGIN, regardless of filters.
 */
export function rejectedOriginWarnings(chains: readonly FilterChain[], corsOrigin: string | undefined): string[] {
  const isAccepted = (origin: string) => origin === corsOrigin || LOOPBACK_ORIGIN.test(origin);
  return chains
    .flatMap(({ filters }) => filters)
    .flatMap(({ settings, at }) => {
      if (settings.filter !== 'cors' || settings.allow_origins.includes('*')) return [];
      const { allow_origins, allow_null_origin } = settings;
      const rejected = [...allow_origins, ...(allow_null_origin ? ['null'] : [])].filter(
        (origin) => !isAccepted(origin),
      );
      if (rejected.length === 0) return [];
      return `${at}: cors allows ${rejected.join(', ')}, but the listener rejects every foreign origin except SERVICE_CORS_ORIGIN`;
    });
}
