import type { RowData } from '@tanstack/react-table';
import type { ReactNode } from 'react';
import { DataTable, type DataTableProps } from './data-table.tsx';
import { ErrorNotice, UnmatchedState } from './notices.tsx';

interface QueryTableProps<Row extends RowData> extends Omit<DataTableProps<Row>, 'rows' | 'total' | 'empty'> {
  /** The request that returns the rows. */
  readonly query: {
    readonly data: unknown;
    readonly error: unknown;
    readonly refetch: () => Promise<unknown>;
  };
  /** Number of all rows, before filters. With none, `empty` is shown instead of "Nothing matches". */
  readonly all: number | undefined;
  readonly rows: readonly Row[] | undefined;
  /** Shown when there are no rows at all. */
  readonly empty: ReactNode;
  /** What the list is filtered by: "the search or the namespace". */
  readonly filters?: string;
}

/** A table of what a request returns: skeleton, rows, or the error with a way to try again. */
export function QueryTable<Row extends RowData>({ query, all, empty, filters, ...table }: QueryTableProps<Row>) {
  const { data, error, refetch } = query;
  // What was loaded before a failure is still worth reading.
  if (error && data === undefined) {
    return <ErrorNotice title={`${table.label} could not be loaded`} error={error} onRetry={() => void refetch()} />;
  }
  const unmatched = <UnmatchedState filters={filters} />;
  return <DataTable {...table} total={all} empty={all === 0 ? empty : unmatched} />;
}
