import { expect, test } from 'vitest';
import { listPages, type PageQuery } from './list-pages.ts';

/** Reads pages of a list of numbers. */
function pagesOf(total: number) {
  const queries: PageQuery[] = [];
  const read = async (query: PageQuery) => {
    queries.push(query);
    const from = Number(query.cursor ?? 0);
    const to = Math.min(total, from + Number(query.limit ?? total));
    const data = Array.from({ length: to - from }, (_, at) => from + at);
    return { data, page: { ...(to < total && { next: String(to) }), total } };
  };
  return { queries, read };
}

test('a limit beyond the largest page reads several, and no more than needed', async () => {
  const { queries, read } = pagesOf(5_000);
  const { rows, omitted } = await listPages({ limit: 2_500, search: 'x' }, read);
  expect([rows.length, rows.at(-1), omitted]).toEqual([2_500, 2_499, 2_500]);
  expect(queries).toEqual([
    { q: 'x', limit: '1000', cursor: undefined },
    { q: 'x', limit: '1000', cursor: '1000' },
    { q: 'x', limit: '500', cursor: '2000' },
  ]);
});

test('a short list ends before the limit', async () => {
  const { queries, read } = pagesOf(3);
  expect(await listPages({ limit: 2_000 }, read)).toEqual({ rows: [0, 1, 2], omitted: 0 });
  expect(queries).toHaveLength(1);
  expect(await listPages({}, read)).toEqual({ rows: [0, 1, 2], omitted: 0 });
  expect(queries.at(-1)).toEqual({});
});
