import { Button, Tag } from '@carbon/react';
import { unwrap, unwrapPage } from '@sluice/contract/client';
import { isTerminal, TASK_STATUSES } from '@sluice/protocol/mcp/tasks';
import { useMemo, useState } from 'react';
import { useLiveTasks } from '../../api/live-queries.ts';
import { type Task, useApiQuery, useChange } from '../../api/queries.ts';
import type { Column } from '../../ui/data-table.tsx';
import { FilterBar, matches } from '../../ui/filters.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { JsonView } from '../../ui/json-view.tsx';
import { DetailsModal, FormModal } from '../../ui/modal.tsx';
import { EmptyState, MissingNotice } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { routeTo, useParameter } from '../../ui/route.ts';
import { actionsColumn } from '../../ui/row-actions.tsx';
import { useToasts } from '../../ui/toasts.tsx';

/** Tasks that are loaded at most. */
const LIMIT = 1_000;
/** States that can be selected; without one, open tasks are shown. */
const STATES = ['all', 'ended', ...TASK_STATUSES] as const;

/** `#/tasks`: long tool calls, by default the open ones. */
export default function Tasks() {
  useLiveTasks();
  const [state, setState] = useParameter('state');
  const [open, setOpen] = useParameter('open', { push: true });
  const [search, setSearch] = useParameter('q');
  const [forward, setForward] = useParameter('forward');
  const [canceled, setCanceled] = useState<Task>();
  const selected = STATES.find((known) => known === state) ?? 'open';
  const tasks = useApiQuery(['tasks', selected], (client, signal) =>
    unwrapPage(client.GET('/api/v1/tasks', { params: { query: { state: selected, limit: String(LIMIT) } }, signal })),
  );
  const rows = tasks.data?.data;
  const columns = useMemo<readonly Column<Task>[]>(
    () => [
      {
        id: 'created',
        header: 'Created',
        accessorFn: ({ createdAt }) => createdAt,
        cell: ({ row }) => new Date(row.original.createdAt).toLocaleString(),
      },
      textColumn('tool', 'Tool', ({ tool }) => tool),
      {
        id: 'status',
        header: 'Status',
        accessorFn: ({ status }) => status,
        cell: ({ row }) => <StatusTag task={row.original} />,
      },
      textColumn('message', 'Message', ({ statusMessage }) => statusMessage),
      textColumn('namespace', 'Namespace', ({ namespace }) => namespace),
      textColumn('forward', 'Forward', ({ forward: name }) => name),
      textColumn('user', 'User', ({ user }) => user),
      actionsColumn(
        (row) => ({
          Details: () => setOpen(row.id),
          ...(!isTerminal(row.status) && { Cancel: () => setCanceled(row) }),
        }),
        'administer',
      ),
    ],
    [setOpen],
  );
  const shown = useMemo(
    () =>
      rows?.filter(
        (task) =>
          (forward === '' || task.forward === forward) &&
          matches(search, task.id, task.tool, task.namespace, task.user, task.statusMessage),
      ),
    [rows, forward, search],
  );
  const opened = rows?.find(({ id }) => id === open);
  return (
    <PageFrame
      title="Tasks"
      description="Long tool calls: their clients poll them for the result. The state is the one that a client last got."
    >
      {open !== '' && rows && !opened && <MissingNotice kind="task" name={open} onClose={() => setOpen('')} />}
      <FilterBar
        search={search}
        onSearch={setSearch}
        placeholder="Search id, tool, namespace, user or message"
        selects={[
          { id: 'state', label: 'State', all: 'Open', options: STATES, value: state, onChange: setState },
          {
            id: 'forward',
            label: 'Forward',
            all: 'All forwards',
            options: [...new Set(rows?.flatMap((task) => task.forward ?? []))],
            value: forward,
            onChange: setForward,
          },
        ]}
      />
      <QueryTable
        query={tasks}
        label="Tasks"
        rows={shown}
        all={tasks.data?.page?.total}
        columns={columns}
        rowKey={({ id }) => id}
        onOpen={({ id }) => setOpen(id)}
        empty={
          <EmptyState
            title="No tasks"
            text="A tool call that takes long appears here, if it is a task."
            action={<Button onClick={() => setState('all')}>Show ended tasks</Button>}
          />
        }
        filters="the search, the state or the forward"
      />
      {opened && !canceled && <TaskDetails task={opened} onClose={() => setOpen('')} />}
      {canceled && <CancelTask task={canceled} onClose={() => setCanceled(undefined)} />}
    </PageFrame>
  );
}

function textColumn(id: string, header: string, value: (task: Task) => string | undefined): Column<Task> {
  return {
    id,
    header,
    accessorFn: (task) => value(task) ?? '',
    cell: ({ row }) => <InertText text={value(row.original) ?? '–'} maxLength={60} />,
  };
}

const TAGS = {
  working: 'blue',
  input_required: 'purple',
  completed: 'green',
  failed: 'red',
  cancelled: 'gray',
} as const;

function StatusTag({ task: { status } }: { readonly task: Task }) {
  return <Tag type={TAGS[status]}>{status.replace('_', ' ')}</Tag>;
}

const KINDS = {
  core: 'core task (2025-11-25)',
  extension: 'task of the extension (2026-07-28)',
  call: 'call that became a task',
} as const;

/** One task with the states that became known. */
function TaskDetails({ task, onClose }: { readonly task: Task; readonly onClose: () => void }) {
  return (
    <DetailsModal heading={task.tool} label={`Task in ${task.namespace}`} onClose={onClose}>
      <dl className="facts">
        <dt>Status</dt>
        <dd>
          <StatusTag task={task} />
        </dd>
        <dt>Kind</dt>
        <dd>{KINDS[task.kind]}</dd>
        <dt>Created</dt>
        <dd>{task.createdAt}</dd>
        <dt>Expires</dt>
        <dd>{task.expiresAt}</dd>
        {task.statusMessage !== undefined && (
          <>
            <dt>Message</dt>
            <dd>
              <InertText text={task.statusMessage} />
            </dd>
          </>
        )}
      </dl>
      <h3 className="section-title">States</h3>
      <ol>
        {task.states.map(({ status, timestamp }) => (
          <li key={timestamp}>{`${timestamp}: ${status}`}</li>
        ))}
      </ol>
      {task.eventId !== undefined && (
        <p className="links">
          <a href={routeTo('/tool-calls', { open: task.eventId })}>Tool call</a>
        </p>
      )}
      <JsonView value={task} label="Task as JSON" />
    </DetailsModal>
  );
}

/** Asks before a task is canceled, which cannot be undone. */
function CancelTask({ task, onClose }: { readonly task: Task; readonly onClose: () => void }) {
  const toasts = useToasts();
  const cancel = useChange<string>({
    run: (client, id) => unwrap(client.POST('/api/v1/tasks/{id}/cancel', { params: { path: { id } } })),
    changes: ['tasks'],
  });
  return (
    <FormModal
      heading={`Cancel task of ${task.tool}`}
      submit="Cancel task"
      dismiss="Keep task"
      danger
      size="sm"
      body={task.id}
      onSubmit={async (id) => {
        await cancel(id);
        toasts.show({ kind: 'success', title: `Task of ${task.tool} canceled` });
      }}
      onClose={onClose}
    >
      <p>Its client does not get a result, unless the upstream completes the task nevertheless.</p>
    </FormModal>
  );
}
