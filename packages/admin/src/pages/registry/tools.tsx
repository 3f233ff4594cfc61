import { Tag } from '@carbon/react';
import { useMemo } from 'react';
import type { Tool } from '../../api/queries.ts';
import type { Column } from '../../ui/data-table.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { JsonView } from '../../ui/json-view.tsx';
import { SchemaTree } from '../../ui/schema-tree.tsx';
import { EntriesPage, type EntryDialogProps, useSearchedEntries } from './entries-page.tsx';
import { EntryDetails } from './entry-details.tsx';
import { TOOLS } from './entry-kinds.ts';
import { ToolForm } from './tool-form.tsx';
import { ToolImport } from './tool-import.tsx';

/** `#/tools` */
export default function Tools() {
  const list = useSearchedEntries('tools');
  const columns = useMemo<readonly Column<Tool>[]>(
    () => [
      {
        id: 'type',
        header: 'Type',
        accessorFn: ({ toolType }) => toolType,
        cell: ({ row }) => (
          <Tag type="cool-gray" size="sm">
            <InertText text={row.original.toolType} maxLength={60} />
          </Tag>
        ),
      },
    ],
    [],
  );
  return (
    <EntriesPage
      api={TOOLS}
      title="Tools"
      description="What agents can call, discovered by forwards or created for capability services."
      list={list}
      columns={columns}
      typeOf={typeOf}
      Form={ToolForm}
      Details={ToolDetails}
      actions={<ToolImport existing={list.data?.entries ?? []} />}
    />
  );
}

function typeOf({ toolType }: Tool): string {
  return toolType;
}

function ToolDetails({ entry, onClose }: EntryDialogProps<Tool>) {
  const { uri, toolType, upstreamName, input_schema, output_schema, annotations } = entry;
  return (
    <EntryDetails
      entry={entry}
      label="Tool"
      onClose={onClose}
      tryIt={{ target: { kind: 'tool', name: entry.name, schema: input_schema }, action: 'Call' }}
      facts={
        <>
          <dt>Upstream</dt>
          <dd>
            <InertText text={uri} />
          </dd>
          <dt>Type</dt>
          <dd>
            <InertText text={toolType} />
          </dd>
          {upstreamName !== undefined && (
            <>
              <dt>Name on the upstream</dt>
              <dd>
                <InertText text={upstreamName} />
              </dd>
            </>
          )}
          {annotations !== undefined && (
            <>
              <dt>Annotations</dt>
              <dd>
                <code>
                  <InertText text={JSON.stringify(annotations)} />
                </code>
              </dd>
            </>
          )}
        </>
      }
    >
      <h3 className="section-title">Arguments</h3>
      <SchemaTree schema={input_schema} label="Arguments" />
      {output_schema !== undefined && (
        <>
          <h3 className="section-title">Structured result</h3>
          <SchemaTree schema={output_schema} label="Structured result" />
        </>
      )}
      <h3 className="section-title">Input schema</h3>
      <JsonView value={input_schema} label="Input schema" />
    </EntryDetails>
  );
}
