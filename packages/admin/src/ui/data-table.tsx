import { DataTableSkeleton, Table, TableBody, TableCell, TableHead, TableHeader, TableRow } from '@carbon/react';
import {
  type ColumnDef,
  createSortedRowModel,
  type RowData,
  rowSortingFeature,
  type SortingState,
  sortFns,
  tableFeatures,
  useTable,
} from '@tanstack/react-table';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, type ReactNode, useMemo, useRef } from 'react';
import { InertText } from './inert-text.tsx';
import { useParameter } from './route.ts';

const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns,
});

/**
 * A column: `id` and `header` name it, `accessorFn` is the value to sort by, `cell` what is shown; by default the value, as
 * inert text.
 */
export type Column<Row extends RowData> = ColumnDef<typeof features, Row, unknown>;

/** Rows are virtualized beyond this number. */
const VIRTUAL_ROWS = 500;
/** Height of a row before it is measured, in pixels. */
const ROW_HEIGHT = 48;

/** Properties of a {@link DataTable}. */
export interface DataTableProps<Row extends RowData> {
  /** Accessible name of the table. */
  readonly label: string;
  /** Undefined while they load. */
  readonly rows: readonly Row[] | undefined;
  readonly columns: readonly Column<Row>[];
  readonly rowKey: (row: Row) => string;
  /** Number of rows before filters. */
  readonly total?: number | undefined;
  /** Shown instead of a table without rows. */
  readonly empty: ReactNode;
}

/**
 * A sortable table; the order is in the address. Beyond 500 rows only the visible ones are in the document, with their
 * position in `aria-rowindex`.
 */
export function DataTable<Row extends RowData>(props: DataTableProps<Row>) {
  const { rows, columns, empty } = props;
  if (!rows)
    return <DataTableSkeleton columnCount={columns.length} rowCount={5} showHeader={false} showToolbar={false} />;
  return rows.length === 0 ? empty : <LoadedTable {...props} rows={rows} />;
}

function LoadedTable<Row extends RowData>({
  label,
  rows,
  columns,
  rowKey,
  total = rows.length,
}: DataTableProps<Row> & { readonly rows: readonly Row[] }) {
  const [sort, setSort] = useParameter('sort');
  const sorting = useMemo(() => parseSort(sort), [sort]);
  const table = useTable({
    features,
    data: rows,
    columns,
    defaultColumn: { cell: ({ getValue }) => <Value value={getValue()} /> },
    getRowId: rowKey,
    state: { sorting },
    onSortingChange: (update) => setSort(formatSort(typeof update === 'function' ? update(sorting) : update)),
  });
  const sorted = table.getRowModel().rows;
  const scroller = useRef<HTMLDivElement>(null);
  const isVirtual = sorted.length > VIRTUAL_ROWS;
  const virtualizer = useVirtualizer({
    count: sorted.length,
    enabled: isVirtual,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 5,
  });
  const visible = virtualizer.getVirtualItems();
  const before = visible[0]?.start ?? 0;
  const after = virtualizer.getTotalSize() - (visible.at(-1)?.end ?? 0);
  const shown = isVirtual ? visible.map(({ index }) => index) : sorted.keys().toArray();

  return (
    <div>
      <section
        className={`table-scroll ${isVirtual ? 'is-virtual' : ''}`}
        ref={scroller}
        aria-label={label}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region has to be reachable by keyboard
        tabIndex={0}
      >
        <Table aria-label={label} aria-rowcount={sorted.length + 1} isSortable size="lg">
          <TableHead>
            {table.getHeaderGroups().map((group) => (
              <TableRow key={group.id}>
                {group.headers.map((header) => (
                  <TableHeader
                    key={header.id}
                    isSortable={header.column.getCanSort()}
                    isSortHeader={header.column.getIsSorted() !== false}
                    sortDirection={directionOf(header.column.getIsSorted())}
                    onClick={header.column.getToggleSortingHandler()}
                  >
                    {String(header.column.columnDef.header)}
                  </TableHeader>
                ))}
              </TableRow>
            ))}
          </TableHead>
          <TableBody>
            {isVirtual && <Spacer height={before} columns={columns.length} />}
            {shown.map((index) => {
              const row = sorted[index];
              if (!row) return null;
              return (
                <BodyRow
                  key={row.id}
                  content={row.original}
                  columns={columns}
                  index={row.index}
                  position={index}
                  measure={isVirtual ? virtualizer.measureElement : undefined}
                  renderCells={() =>
                    row.getAllCells().map((cell) => (
                      <TableCell key={cell.id}>
                        <table.FlexRender cell={cell} />
                      </TableCell>
                    ))
                  }
                />
              );
            })}
            {isVirtual && <Spacer height={after} columns={columns.length} />}
          </TableBody>
        </Table>
      </section>
      <p className="table-count" role="status">
        {sorted.length === total ? `${total} in all` : `${sorted.length} of ${total}`}
      </p>
    </div>
  );
}

interface BodyRowProps {
  /** What is shown in the row: the same object is not rendered again. */
  readonly content: unknown;
  readonly columns: unknown;
  /** Position in the data. */
  readonly index: number;
  /** Position in the table. */
  readonly position: number;
  readonly measure: ((element: HTMLTableRowElement | null) => void) | undefined;
  readonly renderCells: () => ReactNode;
}

/** Row that is rendered only when it changes: not with each step of scrolling, and not when other rows change. */
const BodyRow = memo(
  function BodyRow({ position, measure, renderCells }: BodyRowProps) {
    return (
      <TableRow aria-rowindex={position + 2} data-index={position} {...(measure && { ref: measure })}>
        {renderCells()}
      </TableRow>
    );
  },
  (before, after) =>
    before.content === after.content &&
    before.columns === after.columns &&
    before.index === after.index &&
    before.position === after.position &&
    before.measure === after.measure,
);

function Value({ value }: { readonly value: unknown }) {
  return typeof value === 'string' ? <InertText text={value} maxLength={120} /> : String(value);
}

/** Takes the place of the rows that are not rendered. */
function Spacer({ height, columns }: { readonly height: number; readonly columns: number }) {
  if (height <= 0) return null;
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a row cannot be focused
    <tr aria-hidden="true">
      <td colSpan={columns} style={{ blockSize: height, padding: 0 }} />
    </tr>
  );
}

function directionOf(sorted: false | 'asc' | 'desc'): 'NONE' | 'ASC' | 'DESC' {
  if (sorted === false) return 'NONE';
  return sorted === 'asc' ? 'ASC' : 'DESC';
}

/** `name` or `-name`. */
function parseSort(text: string): SortingState {
  if (text === '') return [];
  return [{ id: text.replace(/^-/, ''), desc: text.startsWith('-') }];
}

function formatSort([first]: SortingState): string {
  if (!first) return '';
  return first.desc ? `-${first.id}` : first.id;
}
