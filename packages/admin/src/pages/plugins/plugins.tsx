import { Button, Tag } from '@carbon/react';
import { useMemo } from 'react';
import type { InstalledPlugin } from '../../plugins/plugin-registry.ts';
import { usePluginList, usePlugins } from '../../plugins/plugins.tsx';
import type { Column } from '../../ui/data-table.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { EmptyState } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { QueryTable } from '../../ui/query-table.tsx';

const TAG = { loading: 'gray', active: 'green', skipped: 'red' } as const;

/** `#/plugins-admin`: the plugins of the console. */
export default function InstalledPlugins() {
  const { plugins } = usePlugins();
  const list = usePluginList();
  const columns = useMemo<readonly Column<InstalledPlugin>[]>(
    () => [
      {
        id: 'name',
        header: 'Name',
        accessorFn: ({ manifest }) => manifest.name,
        cell: ({ row }) => <InertText text={row.original.manifest.name} maxLength={100} />,
      },
      { id: 'id', header: 'Id', accessorFn: ({ manifest }) => manifest.id },
      { id: 'version', header: 'Version', accessorFn: ({ manifest }) => manifest.version },
      {
        id: 'services',
        header: 'Services',
        accessorFn: ({ manifest }) => manifest.requires?.services?.map(({ id }) => id).join(', ') ?? '',
      },
      {
        id: 'permissions',
        header: 'Permissions',
        accessorFn: ({ manifest }) => manifest.permissions?.join(', ') ?? 'all',
      },
      {
        id: 'status',
        header: 'Status',
        accessorFn: ({ state }) => state,
        cell: ({ row: { original } }) => (
          <>
            <Tag type={TAG[original.state]}>{original.state}</Tag>
            {original.reason !== undefined && <InertText text={original.reason} maxLength={200} />}
          </>
        ),
      },
    ],
    [],
  );
  return (
    <PageFrame
      title="Installed Plugins"
      description="Plugins add pages to this console. They are read from the folder --plugins-path when the service starts."
    >
      <QueryTable
        label="Installed Plugins"
        query={list}
        all={list.data && plugins.length}
        rows={list.data && plugins}
        columns={columns}
        rowKey={({ manifest }) => manifest.id}
        empty={
          <EmptyState
            title="No plugins"
            text="Start the service with --plugins-path and a folder with plugins."
            action={<Button onClick={() => void list.refetch()}>Check again</Button>}
          />
        }
      />
    </PageFrame>
  );
}
