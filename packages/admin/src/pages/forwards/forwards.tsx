import { Add } from '@carbon/icons-react';
import { Button } from '@carbon/react';
import { useCallback, useMemo } from 'react';
import { useApi } from '../../api/api.ts';
import { type Forward, useBlocks, useForwards } from '../../api/queries.ts';
import { Allowed } from '../../ui/allowed.tsx';
import { forwardBlock, useBlocking } from '../../ui/blocking.tsx';
import type { Column } from '../../ui/data-table.tsx';
import { FilterBar, matches } from '../../ui/filters.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { EmptyState, MissingNotice } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { useEdited, useParameter } from '../../ui/route.ts';
import { actionsColumn } from '../../ui/row-actions.tsx';
import { useToasts } from '../../ui/toasts.tsx';
import { useDeleteForward } from './delete-forward.tsx';
import { type ReadForward, readForward } from './forward-changes.ts';
import { ForwardDetails, ForwardStatus, statusOf } from './forward-details.tsx';
import { ForwardForm } from './forward-form.tsx';
import { useRefreshForward } from './refresh-forward.ts';

/** `#/forwards`: the upstream MCP servers. */
export default function Forwards() {
  const forwards = useForwards();
  const { data } = forwards;
  const [open, setOpen] = useParameter('open', { push: true });
  const [search, setSearch] = useParameter('q');
  const [namespace, setNamespace] = useParameter('namespace');
  const [edited, setEdited] = useEdited<ReadForward>();
  const { client } = useApi();
  const toasts = useToasts();
  const refresh = useRefreshForward();
  const { remove, confirmation } = useDeleteForward();
  const { data: blocks } = useBlocks();
  const { block, unblock, dialog } = useBlocking();
  const blocked = useMemo(() => new Set(blocks?.map(({ id }) => id)), [blocks]);
  const edit = useCallback(
    ({ name }: Forward) => {
      const fail = (error: unknown): void => toasts.fail(`${name} could not be read`, error);
      void readForward(client, name).then(setEdited, fail);
    },
    [client, setEdited, toasts],
  );
  const columns = useMemo<readonly Column<Forward>[]>(
    () => [
      {
        id: 'name',
        header: 'Name',
        accessorFn: ({ name }) => name,
        cell: ({ row }) => <InertText text={row.original.name} />,
      },
      {
        id: 'address',
        header: 'Address',
        accessorFn: ({ address }) => address,
        cell: ({ row }) => <InertText text={row.original.address} maxLength={120} />,
      },
      { id: 'namespace', header: 'Namespace', accessorFn: ({ namespace }) => namespace },
      {
        id: 'server',
        header: 'Server',
        accessorFn: ({ serverInfo }) => serverInfo?.serverName ?? '',
        cell: ({ row: { original } }) =>
          original.serverInfo ? (
            <InertText text={`${original.serverInfo.serverName} ${original.serverInfo.version}`} maxLength={80} />
          ) : (
            '–'
          ),
      },
      {
        id: 'entries',
        header: 'Entries',
        accessorFn: (forward) => forward.tools_discovered + forward.resources_discovered + forward.prompts_discovered,
      },
      {
        id: 'status',
        header: 'Status',
        accessorFn: statusOf,
        cell: ({ row: { original } }) => (
          <>
            <ForwardStatus forward={original} />
            {blocked.has(forwardBlock(original.name)) && <div>Blocked</div>}
          </>
        ),
      },
      actionsColumn((row) => ({
        Details: () => setOpen(row.name),
        Refresh: () => refresh(row.name),
        Edit: () => edit(row),
        ...(blocked.has(forwardBlock(row.name))
          ? { Unblock: () => unblock(forwardBlock(row.name)) }
          : { Block: () => block(forwardBlock(row.name)) }),
        Delete: () => remove(row),
      })),
    ],
    [edit, refresh, remove, setOpen, blocked, block, unblock],
  );
  const shown = useMemo(
    () =>
      data?.filter(
        (forward) =>
          (namespace === '' || forward.namespace === namespace) &&
          matches(search, forward.name, forward.address, forward.serverInfo?.serverName),
      ),
    [data, search, namespace],
  );
  const opened = data?.find(({ name }) => name === open);
  const add = (
    <Allowed right="change_registry">
      <Button size="md" renderIcon={Add} onClick={() => setEdited('new')}>
        Add Forward
      </Button>
    </Allowed>
  );
  return (
    <PageFrame
      title="Forwards"
      description="Upstream MCP servers. Their tools, resources and prompts are discovered and served in a namespace."
      actions={add}
    >
      {open !== '' && data && !opened && <MissingNotice kind="forward" name={open} onClose={() => setOpen('')} />}
      {data && data.length > 0 && (
        <FilterBar
          search={search}
          onSearch={setSearch}
          placeholder="Search name, address or server"
          selects={[
            {
              id: 'namespace',
              label: 'Namespace',
              all: 'All namespaces',
              options: [...new Set(data.map((forward) => forward.namespace))],
              value: namespace,
              onChange: setNamespace,
            },
          ]}
        />
      )}
      <QueryTable
        query={forwards}
        label="Forwards"
        rows={shown}
        all={data?.length}
        columns={columns}
        rowKey={({ name }) => name}
        onOpen={({ name }) => setOpen(name)}
        empty={
          <EmptyState
            title="No forwards"
            text="Add the address of an MCP server, and agents can use its tools through Sluice."
            action={
              <Allowed right="change_registry">
                <Button onClick={() => setEdited('new')}>Add the first forward</Button>
              </Allowed>
            }
          />
        }
        filters="the search or the namespace"
      />
      {edited && <ForwardForm {...(edited !== 'new' && { edited })} onClose={() => setEdited(undefined)} />}
      {confirmation}
      {dialog}
      {opened && !edited && <ForwardDetails forward={opened} onClose={() => setOpen('')} />}
    </PageFrame>
  );
}
