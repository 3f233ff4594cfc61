import { SkeletonText } from '@carbon/react';
import { useMetrics } from '../../api/queries.ts';
import { ErrorNotice } from '../../ui/notices.tsx';

/** Numbers of the sandboxed processes that run actions. */
export function HostProcesses() {
  const { data, error, refetch } = useMetrics();
  if (error && !data)
    return <ErrorNotice title="The numbers could not be loaded" error={error} onRetry={() => void refetch()} />;
  if (!data) return <SkeletonText paragraph lineCount={2} />;
  if (!data.hosts || data.hosts.started === 0) return <p>None: they are started when the first evaluator is added.</p>;
  const { running, idle, spare, waiting, started, ended } = data.hosts;
  const facts = [
    ['Running an action', running],
    ['Idle', idle],
    ['Spare, in case one is killed', spare],
    ['Runs that wait for a process', waiting],
    ['Started', started],
    ['Ended: over a limit, crashed or replaced', ended],
  ] as const;
  return (
    <dl className="facts">
      {facts.map(([label, value]) => (
        <div key={label} className="fact">
          <dt>{label}</dt>
          <dd>{value.toLocaleString()}</dd>
        </div>
      ))}
    </dl>
  );
}
