import { Button } from '@carbon/react';
import { type Right, useMay } from '../api/session.ts';
import type { Column } from './data-table.tsx';

/** What each button does, by its label. */
type Actions = Readonly<Record<string, () => unknown>>;

interface RowActionsProps {
  readonly actions: Actions;
  /** What those that change something require. */
  readonly right?: Right | undefined;
}

/** Those that change nothing. */
const READING: ReadonlySet<string> = new Set(['Details', 'Compare']);

/** Buttons of a table row, without those that the caller may not use. */
export function RowActions({ actions, right = 'change_registry' }: RowActionsProps) {
  const may = useMay();
  const allowed = Object.entries(actions).filter(([label]) => READING.has(label) || may(right));
  return (
    <div className="row-actions">
      {allowed.map(([label, run]) => (
        <Button key={label} kind="ghost" size="sm" onClick={() => void run()}>
          {label}
        </Button>
      ))}
    </div>
  );
}

/** The column with the buttons of each row. */
export function actionsColumn<Row extends object>(
  actionsOf: (row: Row) => Actions,
  right?: Right | ((row: Row) => Right),
): Column<Row> {
  return {
    id: 'actions',
    header: 'Actions',
    enableSorting: false,
    cell: ({ row: { original } }) => (
      <RowActions actions={actionsOf(original)} right={typeof right === 'function' ? right(original) : right} />
    ),
  };
}
