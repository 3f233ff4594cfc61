import { Button } from '@carbon/react';
import type { Column } from './data-table.tsx';

/** What each button does, by its label. */
type Actions = Readonly<Record<string, () => unknown>>;

interface RowActionsProps {
  readonly actions: Actions;
}

/** Buttons of a table row. */
export function RowActions({ actions }: RowActionsProps) {
  return (
    <div className="row-actions">
      {Object.entries(actions).map(([label, run]) => (
        <Button key={label} kind="ghost" size="sm" onClick={() => void run()}>
          {label}
        </Button>
      ))}
    </div>
  );
}

/** The column with the buttons of each row. */
export function actionsColumn<Row extends object>(actionsOf: (row: Row) => Actions): Column<Row> {
  return {
    id: 'actions',
    header: 'Actions',
    enableSorting: false,
    cell: ({ row }) => <RowActions actions={actionsOf(row.original)} />,
  };
}
