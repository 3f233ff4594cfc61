import type { PageInfo } from '@sluice/contract';
import { MAX_PAGE_SIZE } from '@sluice/contract/values';
import { type Command, InvalidArgumentError } from 'commander';
import type { Context } from '../context.ts';

/** Options of a list that the service can search and divide into pages. */
export interface PageOptions {
  readonly limit?: number;
  readonly search?: string;
}

/** Query parameters of one page. */
export interface PageQuery {
  readonly limit?: string;
  readonly cursor?: string | undefined;
  readonly q?: string;
}

/** A list as far as it was read. */
export interface ListedRows<Row> {
  readonly rows: readonly Row[];
  /** Matching rows that were not read because of `--limit`. */
  readonly omitted: number;
}

/** Adds the options of {@link PageOptions} to a command that lists `plural`. */
export function addPageOptions(command: Command, plural: string): Command {
  return command
    .option('--limit <n>', `Number of ${plural} to list`, (text: string) => Number(parsePositive(text)))
    .option('--search <text>', `Only ${plural} with this text in the name or description, in any case`);
}

/** Option parser of a number of items. Returns the text. */
export function parsePositive(text: string): string {
  if (!/^[1-9][0-9]*$/.test(text)) throw new InvalidArgumentError('Expected a whole number from 1.');
  return text;
}

/** Reads a list, in as many pages as `--limit` needs. `read` requests one page. */
export async function listPages<Row>(
  { limit, search }: PageOptions,
  read: (query: PageQuery) => Promise<{ readonly data: readonly Row[]; readonly page?: PageInfo | undefined }>,
): Promise<ListedRows<Row>> {
  const filter = search === undefined ? {} : { q: search };
  if (limit === undefined) return { rows: (await read(filter)).data, omitted: 0 };
  const rows: Row[] = [];
  let page: PageInfo | undefined;
  do {
    const size = Math.min(limit - rows.length, MAX_PAGE_SIZE);
    const part = await read({ ...filter, limit: String(size), cursor: page?.next });
    rows.push(...part.data);
    page = part.page;
  } while (page?.next !== undefined && rows.length < limit);
  return { rows, omitted: page?.next === undefined ? 0 : Math.max(0, page.total - rows.length) };
}

/** Prints how many rows a list omits to stderr: `20 of 345 tools; raise --limit for more`. Scripts read stdout. */
export function noteOmitted(context: Context, { rows, omitted }: ListedRows<unknown>, plural: string): void {
  if (omitted === 0) return;
  const total = rows.length + omitted;
  context.terminal.stderr.write(`${rows.length} of ${total} ${plural}; raise --limit for more\n`);
}
