import { setImmediate as nextTurn } from 'node:timers/promises';
import { MAX_PAGE_SIZE, type PageInfo } from '@sluice/contract';
import { parseJson } from '@sluice/protocol/json/parse';
import { quoteText } from '@sluice/protocol/text';
import { z } from 'zod';
import { OperationError } from '../registry/operation-error.ts';
import { type ApiResponse, listResponse } from './responses.ts';
import { parseLimit } from './router.ts';

/** How a list is searched and divided into pages. */
export interface PagedList<T> {
  /** Numbers that the list is sorted by. */
  readonly place: (item: T) => readonly number[];
  /** Identifies an item among those with the same first number of {@link place}. */
  readonly key: (item: T) => string;
  /** Texts that `q` searches. */
  readonly texts: (item: T) => readonly string[];
  readonly serialize: (item: T) => string;
}

/** Query parameters of a list with pages. */
export type PageParameter = 'limit' | 'cursor' | 'q';

/** Items searched per turn of the event loop. */
const SLICE = 1_000;
/** A cursor has the keys of this many items, and not more characters of them, since it is part of a URL. */
const MAX_KEYS = 8;
const MAX_KEYS_LENGTH = 1_000;

/**
 * Content of a cursor: the place of the last item of the previous page, and the first numbers of the places and the keys of the
 * last items, the last one first.
 */
const cursorContent = z.tuple([z.array(z.number()), z.array(z.tuple([z.number(), z.string()]))]);
type Cursor = z.infer<typeof cursorContent>;

/**
 * Returns a response with a list, or with one page of it if the request has `limit`, `cursor` or `q`. Pages neither repeat nor
 * skip items while others are added and removed: the next one begins after the last item of the page that is still there. `items`
 * are sorted by their places.
 */
export async function pagedResponse<T>(
  items: readonly T[],
  list: PagedList<T>,
  query: (parameter: PageParameter) => string | undefined,
): Promise<ApiResponse> {
  const [limit, cursor, search] = [query('limit'), query('cursor'), query('q')];
  if (limit === undefined && cursor === undefined && search === undefined) return listResponse(items, list.serialize);
  const size = parsePageSize(limit);
  const start = cursor === undefined ? 0 : startAfter(items, list, parseCursor(cursor));
  const matches = search ? await matching(items, list, search) : items.map((_, at) => at);
  const rest = matches.filter((at) => at >= start);
  const selected = rest.slice(0, size).flatMap((at) => items[at] ?? []);
  const page: PageInfo = {
    ...(rest.length > selected.length && { next: cursorOf(list, selected) }),
    total: matches.length,
  };
  return listResponse(selected, list.serialize, { page });
}

function parsePageSize(text: string | undefined): number | undefined {
  const size = parseLimit(text);
  if (size === undefined || size <= MAX_PAGE_SIZE) return size;
  throw new OperationError('BAD_REQUEST', `invalid limit ${size}: expected a whole number from 1 to ${MAX_PAGE_SIZE}`);
}

function parseCursor(text: string): Cursor {
  try {
    return cursorContent.parse(parseJson(Buffer.from(text, 'base64url').toString()));
  } catch {
    const message = `invalid cursor ${quoteText(text, 100)}: expected the value of page.next`;
    throw new OperationError('BAD_REQUEST', message);
  }
}

function cursorOf<T>({ place, key }: PagedList<T>, selected: readonly T[]): string {
  const last = selected.slice(-MAX_KEYS).reverse();
  const keys: [number, string][] = [];
  let length = 0;
  for (const item of last) {
    const text = key(item);
    length += text.length;
    if (length > MAX_KEYS_LENGTH) break;
    keys.push([place(item)[0] ?? 0, text]);
  }
  const cursor: Cursor = [last.slice(0, 1).flatMap(place), keys];
  return Buffer.from(JSON.stringify(cursor)).toString('base64url');
}

/** The index of the first item after a cursor. */
function startAfter<T>(items: readonly T[], { place, key }: PagedList<T>, [after, selected]: Cursor): number {
  for (const [first, last] of selected.slice(0, MAX_KEYS)) {
    const known = items.findIndex((item) => place(item)[0] === first && key(item) === last);
    if (known !== -1) return known + 1;
  }
  const next = items.findIndex((item) => isAfter(place(item), after));
  return next === -1 ? items.length : next;
}

function isAfter(place: readonly number[], other: readonly number[]): boolean {
  for (const [at, number] of place.entries()) {
    const difference = number - (other[at] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return false;
}

/** The indexes of the items that contain a text in any case. */
async function matching<T>(items: readonly T[], { texts }: PagedList<T>, text: string): Promise<number[]> {
  const searched = text.toLowerCase();
  const found: number[] = [];
  for (const [at, item] of items.entries()) {
    if (at > 0 && at % SLICE === 0) await nextTurn();
    if (texts(item).some((each) => each.toLowerCase().includes(searched))) found.push(at);
  }
  return found;
}
