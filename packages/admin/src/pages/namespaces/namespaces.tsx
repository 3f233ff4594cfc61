import { Add } from '@carbon/icons-react';
import { Button, CopyButton, Tag } from '@carbon/react';
import { DEFAULT_NAMESPACE } from '@sluice/contract';
import { useMemo } from 'react';
import { useApi } from '../../api/api.ts';
import { type Namespace, useNamespaces } from '../../api/queries.ts';
import { Allowed } from '../../ui/allowed.tsx';
import type { Column } from '../../ui/data-table.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { copyText } from '../../ui/json-view.tsx';
import { EmptyState, MissingNotice } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { useEdited, useParameter } from '../../ui/route.ts';
import { actionsColumn } from '../../ui/row-actions.tsx';
import { useDeleteNamespace } from './delete-namespace.tsx';
import { mcpUrl, NamespaceDetails } from './namespace-details.tsx';
import { NamespaceForm } from './namespace-form.tsx';

/** Namespaces that a proxy may serve without a login. */
const PUBLIC = 'public';

/** `#/namespaces`: the MCP endpoints of the service. */
export default function Namespaces() {
  const namespaces = useNamespaces();
  const { data } = namespaces;
  const [open, setOpen] = useParameter('open', { push: true });
  const [edited, setEdited] = useEdited<Namespace>();
  const { remove, confirmation } = useDeleteNamespace();
  const columns = useMemo<readonly Column<Namespace>[]>(
    () => [
      { id: 'name', header: 'Name', accessorFn: ({ name }) => name },
      {
        id: 'status',
        header: 'Status',
        accessorFn: statusOf,
        cell: ({ row }) => (
          <Tag type={row.original.name === PUBLIC ? 'warm-gray' : 'green'} size="md">
            {statusOf(row.original)}
          </Tag>
        ),
      },
      {
        id: 'address',
        header: 'Address',
        accessorFn: addressOf,
        cell: ({ row }) => <Address namespace={row.original} />,
      },
      {
        id: 'labels',
        header: 'Labels',
        enableSorting: false,
        cell: ({ row }) => <Labels labels={row.original.labels} />,
      },
      actionsColumn((row) => ({
        Details: () => setOpen(row.name),
        Edit: () => setEdited(row),
        ...(row.name !== DEFAULT_NAMESPACE && { Delete: () => remove(row) }),
      })),
    ],
    [remove, setEdited, setOpen],
  );
  const opened = data?.find(({ name }) => name === open);
  return (
    <PageFrame
      title="Namespaces"
      description="Each namespace is an MCP endpoint of its own, with its own tools, resources and prompts."
      actions={
        <Allowed right="change_registry">
          <Button size="md" renderIcon={Add} onClick={() => setEdited('new')}>
            Create Namespace
          </Button>
        </Allowed>
      }
    >
      {open !== '' && data && !opened && <MissingNotice kind="namespace" name={open} onClose={() => setOpen('')} />}
      <QueryTable
        query={namespaces}
        label="Namespaces"
        rows={data}
        all={data?.length}
        columns={columns}
        rowKey={({ name }) => name}
        onOpen={({ name }) => setOpen(name)}
        empty={
          <EmptyState
            title="No namespaces"
            text="Create one to give a group of agents an endpoint."
            action={
              <Allowed right="change_registry">
                <Button onClick={() => setEdited('new')}>Create the first namespace</Button>
              </Allowed>
            }
          />
        }
      />
      {edited && (
        <NamespaceForm {...(edited !== 'new' && { namespace: edited })} onClose={() => setEdited(undefined)} />
      )}
      {confirmation}
      {opened && !edited && <NamespaceDetails namespace={opened} onClose={() => setOpen('')} />}
    </PageFrame>
  );
}

function statusOf({ name }: Namespace): string {
  return name === PUBLIC ? 'Without login' : 'Active';
}

function addressOf({ name }: Namespace): string {
  return `/${name}/mcp`;
}

function Address({ namespace }: { readonly namespace: Namespace }) {
  const { base } = useApi();
  const address = namespace.mcpUrl ?? addressOf(namespace);
  return (
    <span className="with-copy">
      <code>
        <InertText text={address} />
      </code>
      <CopyButton iconDescription="Copy the URL" onClick={() => void copyText(mcpUrl(base, namespace))} />
    </span>
  );
}

function Labels({ labels }: { readonly labels: Readonly<Record<string, string>> }) {
  return Object.entries(labels).map(([name, value]) => (
    <Tag key={name} type="cool-gray" size="sm">
      <InertText text={`${name}=${value}`} maxLength={80} />
    </Tag>
  ));
}
