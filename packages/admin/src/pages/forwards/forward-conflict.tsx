import { InlineNotification } from '@carbon/react';
import type { ForwardInput } from '@sluice/contract';
import type { Forward } from '../../api/queries.ts';
import { Comparison } from '../../ui/comparison.tsx';
import { isEqual } from './forward-changes.ts';

interface ForwardConflictProps {
  /** The forward when the form was opened. */
  readonly before: Forward;
  /** The forward as it is now. */
  readonly current: Forward;
  /** What is typed, if it is valid. */
  readonly typed: ForwardInput | undefined;
}

const MEMBERS = ['address', 'namespace', 'prefix', 'labels', 'headers', 'expose'] as const;

/** What somebody else has changed while the form was open, and what saving it does to that. */
export function ForwardConflict({ before, current, typed }: ForwardConflictProps) {
  const members = MEMBERS.filter((name) => !isEqual(before[name], current[name])).map((name) => {
    const isTyped = typed !== undefined && !isEqual(typed[name], before[name]);
    const after = isTyped ? typed[name] : current[name];
    return { name, values: [before[name], current[name], after], isChanged: isTyped };
  });
  return (
    <section aria-label="Changes by others">
      <InlineNotification
        kind="warning"
        lowContrast
        hideCloseButton
        title="Somebody else has changed this forward"
        subtitle="What you have typed is kept. If you save it, only what you have changed is applied."
      />
      <Comparison columns={['When you opened it', 'Now', 'After saving']} members={members} />
    </section>
  );
}
