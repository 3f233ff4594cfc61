import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { call } from './model.ts';
import { type ApiRequest, type Collection, pathOf } from './request.ts';
import type { Catalog, CatalogChange, Mode, State } from './state.ts';

/**
 * A PUT of a modified GET response of the same entry: undefined removes a member. The name may be a placeholder for an
 * item ({@link itemPlaceholder}), in other calls too.
 */
export interface Edit {
  readonly edit: 'tools' | 'resources' | 'prompts';
  readonly name: string;
  readonly query: Readonly<Record<string, string>>;
  readonly change: Readonly<Record<string, JsonValue | undefined>>;
}

/** End of a group of calls: when all have responses, or with the process after this many. */
export interface Interruption {
  readonly signal: 'SIGTERM' | 'SIGKILL';
  readonly after: number;
}

/** One step of a run. Upstreams are named by their number, also in bodies ({@link addressPlaceholder}). */
export type Step =
  | { readonly kind: 'call'; readonly call: ApiRequest | Edit }
  | {
      readonly kind: 'concurrent';
      readonly calls: readonly (ApiRequest | Edit)[];
      readonly interruption: Interruption | undefined;
    }
  | {
      readonly kind: 'upstream';
      readonly upstream: number;
      readonly mode?: Mode;
      readonly offers?: Catalog | CatalogChange;
    }
  | { readonly kind: 'restart'; readonly signal: 'SIGTERM' | 'SIGKILL' };

/** Placeholder for an upstream's address, which differs in each run. */
export function addressPlaceholder(upstream: number): string {
  return `http://upstream-${upstream}/mcp`;
}

/** Placeholder for the item with this index, if it exists, in the collection's list. */
export function itemPlaceholder(number: number): string {
  return `#${number}`;
}

/** The call as sent in this state: with the names of items, and the addresses of upstreams. */
export function resolveStep(state: State, step: ApiRequest | Edit): ApiRequest {
  const request = 'edit' in step ? resolveEdit(state, { ...step, ...resolveItem(state, step.edit, step) }) : step;
  const { collection, body } = request;
  const known = { ...request, ...(collection !== 'statistics' && resolveItem(state, collection, request)) };
  if (body === undefined) return known;
  const address = (text: string, index: string): string => state.upstreams[Number(index)]?.address ?? text;
  return { ...known, body: body.replace(/http:\/\/upstream-(\d+)\/mcp/g, address) };
}

type Addressed = Pick<ApiRequest, 'name' | 'query'>;

/** Replaces placeholders for an item in name and query; the query gets the item's namespace and uri. */
function resolveItem(state: State, collection: Collection, { name, query = {} }: Addressed): Addressed {
  const [, number] = /^#(\d+)$/.exec(name ?? '') ?? [];
  if (number === undefined) return { name, query };
  const { data } = call(state, { method: 'GET', collection }).answer;
  const items = Array.isArray(data) ? data.filter(isJsonObject) : [];
  const item = items[Number(number) % items.length];
  if (!item) return { name, query };
  const narrowed = Object.entries(query).map(([parameter, value]) => {
    const own = item[parameter === 'uri' ? 'location' : parameter];
    return [parameter, typeof own === 'string' ? own : value];
  });
  return { name: String(item.name), query: Object.fromEntries(narrowed) };
}

/** The call on one line. */
export function formatRequest(request: ApiRequest): string {
  const body = request.body === undefined ? '' : ` ${request.body}`;
  return `${request.method} ${pathOf(request)}${body}`;
}

/** The step on one line, as far as it is known before it runs. */
export function describe(step: Step): string {
  const one = (each: ApiRequest | Edit): string =>
    'edit' in each
      ? `EDIT ${pathOf({ method: 'PUT', collection: each.edit, name: each.name, query: each.query })} ${JSON.stringify(each.change, (_, value) => (value === undefined ? '(none)' : value))}`
      : formatRequest(each);
  switch (step.kind) {
    case 'call':
      return one(step.call);
    case 'concurrent':
      return `at once${step.interruption ? `, ${step.interruption.signal} after ${step.interruption.after} answers` : ''}: ${step.calls.map(one).join(' | ')}`;
    case 'upstream':
      return `upstream ${step.upstream}: ${step.mode ?? ''} ${step.offers ? JSON.stringify(step.offers) : ''}`;
    case 'restart':
      return `restart by ${step.signal}`;
  }
}

function resolveEdit(
  state: State,
  { edit, name, query, change }: Omit<Edit, 'name' | 'query'> & Addressed,
): ApiRequest {
  const { data } = call(state, { method: 'GET', collection: edit, name, query }).answer;
  const read: JsonObject = typeof data === 'object' && data !== null ? Object.fromEntries(Object.entries(data)) : {};
  // JSON omits undefined.
  return { method: 'PUT', collection: edit, name, query, body: JSON.stringify({ ...read, ...change }) };
}
