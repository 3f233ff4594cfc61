import { isIPv6 } from 'node:net';
import { type ListenAddress, quote } from '../../../http/address.ts';
import type { KeyPath, Problem, YamlFile } from '../yaml-document.ts';
import type { FilterChain, PipelineListener } from './pipeline.ts';

/** A name, and where it stands. */
export interface Named {
  readonly name: string;
  readonly path: KeyPath;
}

/** What a file says of one filter, as far as it matters to others. */
export interface OutlinedFilter {
  readonly path: KeyPath;
  readonly filter: string | undefined;
  readonly conditional: boolean;
  /** Of `router`: the clusters that routes name. */
  readonly routes: readonly Named[];
  /** Of `load_balancer`: the clusters that it adds. */
  readonly clusters: readonly Named[];
}

/**
 * Who is called what in a pipeline file, and who names whom. It is there for files too that have mistakes elsewhere, so
 * that all mistakes can be told at once.
 */
export interface Outline {
  readonly listeners: readonly { readonly path: KeyPath; readonly name: Named | undefined; readonly chains: Named[] }[];
  readonly chains: readonly {
    readonly path: KeyPath;
    readonly name: Named | undefined;
    readonly filters: OutlinedFilter[];
  }[];
  /** Of the top level. */
  readonly clusters: readonly Named[];
  readonly skipValidation: boolean;
  /** False when something has no name, or is no list, that should: others may mean just that. */
  readonly complete: boolean;
}

/** The outline of a file's content, which may be anything. */
export function outlineOf(content: unknown): Outline {
  const listeners = entries(content, 'listeners', []).map(({ value, path }) => ({
    path,
    name: named(member(value, 'name'), path),
    chains: entries(value, 'filter_chains', path).flatMap((item) => named(item.value, item.path) ?? []),
  }));
  const chains = entries(content, 'filter_chains', []).map(({ value, path }) => ({
    path,
    name: named(member(value, 'name'), path),
    filters: entries(value, 'filters', path).map(outlinedFilter),
  }));
  const clusters = namesIn(content, 'clusters', []);
  const written = entries(content, 'clusters', []).length;
  const balanced = chains.flatMap(({ filters }) => filters).filter(({ filter }) => filter === 'load_balancer');
  return {
    listeners,
    chains,
    clusters,
    skipValidation: member(member(content, 'insecure_options'), 'skip_pipeline_validation') === true,
    complete:
      Array.isArray(member(content, 'filter_chains')) &&
      Array.isArray(member(content, 'clusters') ?? []) &&
      chains.every(({ name }) => name) &&
      clusters.length === written &&
      balanced.every(({ unnamed }) => !unnamed),
  };
}

function outlinedFilter({ value, path }: Entry): OutlinedFilter & { readonly unnamed: boolean } {
  const clusters = namesIn(value, 'clusters', path);
  return {
    path,
    filter: text(member(value, 'filter')),
    conditional: entries(value, 'conditions', path).length > 0,
    routes: entries(value, 'routes', path).flatMap(
      (route) => named(member(route.value, 'cluster'), [...route.path, 'cluster']) ?? [],
    ),
    clusters,
    unnamed: clusters.length < entries(value, 'clusters', path).length,
  };
}

interface Entry {
  readonly value: unknown;
  readonly path: KeyPath;
}

/** The items of the list that stands under a key; none when there is no list. */
function entries(parent: unknown, key: string, path: KeyPath): Entry[] {
  const list: unknown = member(parent, key);
  return Array.isArray(list) ? list.map((value: unknown, index) => ({ value, path: [...path, key, index] })) : [];
}

function namesIn(parent: unknown, key: string, path: KeyPath): Named[] {
  return entries(parent, key, path).flatMap((item) => named(member(item.value, 'name'), item.path) ?? []);
}

function member(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? Object.entries(value).find(([name]) => name === key)?.[1]
    : undefined;
}

function named(name: unknown, path: KeyPath): Named | undefined {
  return typeof name === 'string' && name !== '' ? { name, path } : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** Filters that answer requests which evaluators can judge; what they answer, no filter behind them sees. */
const ANSWERING: ReadonlySet<string> = new Set([
  'service_mcp_init',
  'service_tool_list',
  'service_tool_call',
  'service_resource_list',
  'service_resource_read',
  'service_subscribe',
  'service_prompt_list',
  'service_prompt_get',
  'service_completion',
  'service_relay',
]);

/**
 * Where a listener's filters let requests pass unjudged though `service_evaluator` is there: in front of
 * `service_namespace` it judges none, and never what was answered before it. A filter with conditions may answer before
 * it: that says which requests are not to be judged.
 */
export function unjudgedFilters(filters: readonly OutlinedFilter[]): Misplaced[] {
  const found: Misplaced[] = [];
  const answering: string[] = [];
  let hasNamespace = false;
  for (const outlined of filters) {
    const { filter: name = '', conditional } = outlined;
    if (name === 'service_namespace') hasNamespace = true;
    else if (hasNamespace && !conditional && ANSWERING.has(name)) answering.push(name);
    if (name !== 'service_evaluator') continue;
    if (!hasNamespace) {
      const text = 'filter service_evaluator judges no request without service_namespace before it: put it behind that';
      found.push({ filter: outlined, text });
      continue;
    }
    if (answering.length > 0) {
      const what = answering.join(', ');
      const text = `filter service_evaluator judges nothing of what is answered before it: put it before ${what}`;
      found.push({ filter: outlined, text });
    }
    // What passes the first one by was meant to.
    break;
  }
  return found;
}

/**
 * Warnings of listeners whose requests no evaluator judges, because there is no `service_evaluator` (decisions 1.4). It is
 * for whoever knows that there are evaluators.
 */
export function unjudgedListeners(
  listeners: readonly Pick<PipelineListener, 'name' | 'chains' | 'filters'>[],
): string[] {
  return listeners
    .filter(({ filters }) => {
      const names = filters.map(({ settings }) => settings.filter);
      return names.some((name) => ANSWERING.has(name)) && !names.includes('service_evaluator');
    })
    .map(
      ({ name, chains }) =>
        `evaluators judge nothing at the listener ${quote(name)}: none of its chains (${chains.map(quote).join(', ')}) ` +
        'has the filter service_evaluator; put it behind service_namespace',
    );
}

/** A filter, and what is wrong with where it stands. */
export interface Misplaced {
  readonly filter: OutlinedFilter;
  readonly text: string;
}

/** Filters that do nothing by themselves: `load_balancer` does what they say. */
const FOR_LOAD_BALANCER: ReadonlySet<string> = new Set(['router', 'service_intercept']);

/** What is wrong with the order of a listener's filters (decisions 1.4, "Ordering mistakes"). */
export function orderMistakes(filters: readonly OutlinedFilter[]): Misplaced[] {
  const mistakes: Misplaced[] = [];
  const before = new Set<string>();
  for (const [index, outlined] of filters.entries()) {
    const { filter: name = '', conditional } = outlined;
    const mistake = (filter: OutlinedFilter, problem: string) =>
      mistakes.push({ filter, text: `filter ${filter.filter ?? 'without a name'} ${problem}` });
    if (name.startsWith('service_') && name !== 'service_intercept' && !before.has('mcp')) {
      mistake(outlined, 'needs the filter mcp, without conditions, somewhere before it');
    }
    if (name === 'load_balancer' && !before.has('router'))
      mistake(outlined, 'needs the filter router somewhere before it');
    // Behind one that may be passed by, nobody would have read the message.
    if (name !== 'mcp' || !conditional) before.add(name);
    if (name !== 'static_response' || conditional) continue;
    const next = filters[index + 1];
    if (next) mistake(next, 'and all behind it are never reached: give the static_response before it conditions');
    break;
  }
  return mistakes;
}

/** What is in order, and yet does nothing: a filter that prepares a request to be sent on, which nobody then does. */
export function idleFilters(filters: readonly OutlinedFilter[]): Misplaced[] {
  const last = filters.findLastIndex(({ filter }) => filter === 'load_balancer');
  return filters
    .filter(({ filter = '' }, index) => FOR_LOAD_BALANCER.has(filter) && index > last)
    .map((filter) => ({ filter, text: `filter ${filter.filter} has no effect without load_balancer behind it` }));
}

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

/** A listener that cannot listen because another one does. */
export interface AddressTaken {
  readonly listener: PipelineListener;
  readonly text: string;
}

/** The listeners whose address is that of one before them. Port 0 is another one each time. */
export function takenAddresses(listeners: readonly PipelineListener[]): AddressTaken[] {
  return listeners.flatMap((listener, index) => {
    const first = listeners.slice(0, index).find(({ address }) => same(address, listener.address));
    if (!first) return [];
    const text = `listener ${quote(listener.name)} has the address of the listener ${quote(first.name)} (${first.addressAt}); give it one of its own`;
    return [{ listener, text }];
  });
}

function same(one: ListenAddress, other: ListenAddress): boolean {
  if (one.port === 0 || one.port !== other.port) return false;
  // One that is on all interfaces is in the way of those on any.
  return normal(one) === normal(other) || [one, other].some(({ host }) => ['0.0.0.0', '::'].includes(normal({ host })));
}

/** One spelling for each address. */
function normal({ host }: Pick<ListenAddress, 'host'>): string {
  return isIPv6(host) ? (URL.parse(`http://[${host}]`)?.hostname.slice(1, -1) ?? host) : host.toLowerCase();
}

/** Pages of this machine. */
const LOOPBACK = /^https?:\/\/(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/;

/**
 * Says of each `cors` filter what it allows in vain, a line each: listeners let in no foreign origin but that of
 * SERVICE_CORS_ORIGIN, whatever a filter says (mcp 6).
 */
export function refusedOrigins(chains: readonly FilterChain[], corsOrigin: string | undefined): string[] {
  const passes = (origin: string) => origin === corsOrigin || LOOPBACK.test(origin);
  return chains
    .flatMap(({ filters }) => filters)
    .flatMap(({ settings, at }) => {
      if (settings.filter !== 'cors' || settings.allow_origins.includes('*')) return [];
      const { allow_origins, allow_null_origin } = settings;
      const vain = [...allow_origins, ...(allow_null_origin ? ['null'] : [])].filter((origin) => !passes(origin));
      if (vain.length === 0) return [];
      return `${at}: cors allows ${vain.join(', ')}, which the listener refuses: SERVICE_CORS_ORIGIN names the one foreign origin it lets in`;
    });
}
