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
import { type MouseEvent, memo, type ReactNode, useMemo, useRef } from 'react';
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
  /** Shown in the table when it has no rows. */
  readonly empty: ReactNode;
  /** Opens the details of a row that is clicked; the row also has a button for that. */
  readonly onOpen?: ((row: Row) => void) | undefined;
}

/**
 * A sortable table; the order is in the address. Beyond 500 rows only the visible ones are in the document, with their
 * position in `aria-rowindex`.
 */
export function DataTable<Row extends RowData>(props: DataTableProps<Row>) {
  const { rows, columns } = props;
  if (!rows)
    return <DataTableSkeleton columnCount={columns.length} rowCount={5} showHeader={false} showToolbar={false} />;
  return <LoadedTable {...props} rows={rows} />;
}

function LoadedTable<Row extends RowData>({
  label,
  rows,
  columns,
  rowKey,
  total = rows.length,
  empty,
  onOpen,
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
      {/* biome-ignore lint/a11y/useSemanticElements: no landmark, since its section may have the same name */}
      <div
        role="group"
        className={`table-scroll is-list ${isVirtual ? 'is-virtual' : ''} ${onOpen ? 'has-details' : ''}`}
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
                    className={classOf(header.column)}
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
          <TableBody onClick={onOpen && ((event) => openClicked(event, (index) => sorted[index], onOpen))}>
            {sorted.length === 0 && (
              <tr>
                <td colSpan={columns.length}>{empty}</td>
              </tr>
            )}
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
                      <TableCell
                        key={cell.id}
                        className={classOf(cell.column)}
                        data-label={String(cell.column.columnDef.header)}
                      >
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
      </div>
      {total > 0 && (
        <p className="table-count" role="status">
          {sorted.length === total ? `${total} in all` : `${sorted.length} of ${total}`}
        </p>
      )}
    </div>
  );
}

/** Opens the clicked row, unless the click was for a control in it or selects text. */
function openClicked<Row>(
  { target }: MouseEvent,
  rowAt: (index: number) => { readonly original: Row } | undefined,
  onOpen: (row: Row) => void,
): void {
  if (!(target instanceof Element) || target.closest('a, button, input, label')) return;
  const position = target.closest<HTMLElement>('tr[data-index]')?.dataset.index;
  const row = rowAt(Number(position ?? -1));
  if (row && getSelection()?.isCollapsed !== false) onOpen(row.original);
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

/** Class of the cells of a column; the buttons of a row are always in sight. */
function classOf({ id }: { readonly id: string }): string {
  return `${id}-cell`;
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
