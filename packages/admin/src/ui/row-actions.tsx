import { Button } from '@carbon/react';

interface RowActionsProps {
  /** What each button does, by its label. */
  readonly actions: Readonly<Record<string, () => unknown>>;
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
