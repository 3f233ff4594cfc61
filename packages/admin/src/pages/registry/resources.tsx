import { useMemo } from 'react';
import type { Resource } from '../../api/queries.ts';
import type { Column } from '../../ui/data-table.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { variablesOf } from './argument-fields.tsx';
import { EntriesPage, type EntryDialogProps, useSearchedEntries } from './entries-page.tsx';
import { EntryDetails } from './entry-details.tsx';
import { RESOURCES } from './entry-kinds.ts';
import { ResourceForm } from './resource-form.tsx';

/** `#/resources` */
export default function Resources() {
  const list = useSearchedEntries('resources');
  const columns = useMemo<readonly Column<Resource>[]>(
    () => [
      {
        id: 'location',
        header: 'URI',
        accessorFn: ({ location }) => location,
        cell: ({ row }) => (
          <div className="uri">
            <InertText text={row.original.location} maxLength={200} />
            {row.original.mimeType !== '' && (
              <p className="secondary">
                <InertText text={row.original.mimeType} maxLength={80} />
              </p>
            )}
          </div>
        ),
      },
    ],
    [],
  );
  return (
    <EntriesPage
      api={RESOURCES}
      title="Resources"
      description="What agents can read: files, records and templates of upstreams and capability services."
      list={list}
      columns={columns}
      typeOf={typeOf}
      Form={ResourceForm}
      Details={ResourceDetails}
    />
  );
}

function typeOf({ type }: Resource): string {
  return type;
}

function ResourceDetails({ entry, onClose }: EntryDialogProps<Resource>) {
  const { location, type, mimeType, params = [], labels } = entry;
  const isTemplate = labels['service.is_template'] === 'true';
  return (
    <EntryDetails
      entry={entry}
      label={isTemplate ? 'Resource template' : 'Resource'}
      onClose={onClose}
      tryIt={{
        target: { kind: 'resource', uri: location, parameters: isTemplate ? variablesOf(location) : [] },
        action: 'Read',
      }}
      facts={
        <>
          <dt>URI</dt>
          <dd>
            <InertText text={location} />
          </dd>
          <dt>Type</dt>
          <dd>
            <InertText text={type} />
          </dd>
          {mimeType !== '' && (
            <>
              <dt>MIME type</dt>
              <dd>
                <InertText text={mimeType} />
              </dd>
            </>
          )}
          {params.length > 0 && (
            <>
              <dt>Parameters</dt>
              <dd>
                {params.map(({ name, value }) => (
                  <p key={name}>
                    <InertText text={`${name} = ${value}`} />
                  </p>
                ))}
              </dd>
            </>
          )}
        </>
      }
    />
  );
}
