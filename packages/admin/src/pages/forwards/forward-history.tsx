import { SkeletonText, Tag } from '@carbon/react';
import { type components, unwrap } from '@sluice/contract/client';
import { countLabel, ENTRY_KINDS } from '../../api/entries.ts';
import { useApiQuery } from '../../api/queries.ts';
import { InertText } from '../../ui/inert-text.tsx';
import { ErrorNotice } from '../../ui/notices.tsx';

type ForwardChange = components['schemas']['ForwardChange'];

/** Changes of availability and discoveries of a forward since the service started, newest first. */
export function ForwardHistory({ name }: { readonly name: string }) {
  const { data, error, refetch } = useApiQuery(['forwards', 'history', name], (client, signal) =>
    unwrap(client.GET('/api/v1/forwards/{name}/history', { params: { path: { name } }, signal })),
  );
  if (error)
    return <ErrorNotice title="The history could not be loaded" error={error} onRetry={() => void refetch()} />;
  if (!data) return <SkeletonText paragraph lineCount={3} />;
  if (data.length === 0) return <p>Nothing has changed since the service started.</p>;
  return (
    <ol className="history" aria-label="History">
      {data.map((change, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: several changes may have the same time
        <li key={index}>
          <time dateTime={change.timestamp}>{new Date(change.timestamp).toLocaleString()}</time>
          <span>
            <Tag type={TAGS[change.kind].color} size="sm">
              {TAGS[change.kind].label}
            </Tag>{' '}
            <InertText text={describe(change)} maxLength={500} />
          </span>
        </li>
      ))}
    </ol>
  );
}

const TAGS = {
  available: { label: 'Available', color: 'green' },
  unavailable: { label: 'Unavailable', color: 'red' },
  discovered: { label: 'Discovered', color: 'blue' },
  discovery_failed: { label: 'Discovery failed', color: 'red' },
} as const;

function describe(change: ForwardChange): string {
  switch (change.kind) {
    case 'available':
      return '';
    case 'unavailable':
      return change.reason;
    case 'discovered': {
      const { eras, duration, notes = '' } = change;
      const counts = ENTRY_KINDS.map((kind) => countLabel(change[kind], kind)).join(', ');
      return `${counts} in ${Math.round(duration)} ms (${eras.join(', ')}). ${notes}`;
    }
    case 'discovery_failed':
      return `${change.reason} (after ${Math.round(change.duration)} ms)`;
  }
}
