import { Button, Tag } from '@carbon/react';
import { DEFAULT_NAMESPACE, toolCallErrorCategory, toolCallOutcome } from '@sluice/contract';
import { useMemo, useState, useSyncExternalStore } from 'react';
import { useToolCallEvents } from '../../api/tool-call-events.ts';
import {
  type CallState,
  type LoggedCall,
  latestEvent,
  STATE_NAMES,
  stateOf,
  ToolCallLog,
} from '../../api/tool-call-log.ts';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { FilterBar, matches } from '../../ui/filters.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { EmptyState, ErrorNotice, MissingNotice, UnmatchedState } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { routeTo, useParameter } from '../../ui/route.ts';
import { actionsColumn } from '../../ui/row-actions.tsx';
import { CallDetails } from './call-details.tsx';

const OUTCOMES = ['running', ...toolCallOutcome.options] as const;
const TAG = {
  running: 'blue',
  completed: 'green',
  tool_error: 'magenta',
  failed: 'red',
  timeout: 'red',
  canceled: 'gray',
  blocked: 'purple',
} as const satisfies Record<CallState, string>;

/** `#/tool-calls`: the latest tool calls, live. */
export default function ToolCalls() {
  const [log] = useState(() => new ToolCallLog());
  const { isLoaded, error, reload } = useToolCallEvents(log);
  const live = useSyncExternalStore(log.subscribe, () => log.calls);
  const [frozen, setFrozen] = useState<readonly LoggedCall[]>();
  const [open, setOpen] = useParameter('open', { push: true });
  const [search, setSearch] = useParameter('q');
  const [namespace, setNamespace] = useParameter('namespace');
  const [category, setCategory] = useParameter('category');
  const [outcome, setOutcome] = useParameter('outcome');
  const [user, setUser] = useParameter('user');
  const calls = frozen ?? live;
  const shown = useMemo(
    () =>
      calls.filter((call) => {
        const event = latestEvent(call);
        return (
          (namespace === '' || event?.namespace === namespace) &&
          (outcome === '' || stateOf(call) === outcome) &&
          (user === '' || event?.user === user) &&
          (category === '' || categoryOf(call) === category) &&
          matches(search, event?.toolName, sourceOf(call), detailOf(call), event?.user, event?.conversationId)
        );
      }),
    [calls, namespace, outcome, user, category, search],
  );
  const columns = useMemo<readonly Column<LoggedCall>[]>(() => columnsOf(setOpen), [setOpen]);
  const opened = calls.find(({ id }) => id === open);
  const newer = frozen && live.findIndex(({ id }) => id === frozen[0]?.id);
  const values = (value: (call: LoggedCall) => string | undefined) => [
    ...new Set(calls.flatMap((call) => value(call) ?? [])),
  ];
  const selects = [
    {
      id: 'outcome',
      label: 'Outcome',
      all: 'All outcomes',
      options: OUTCOMES,
      value: outcome,
      onChange: setOutcome,
    },
    {
      id: 'namespace',
      label: 'Namespace',
      all: 'All namespaces',
      options: values((call) => latestEvent(call)?.namespace),
      value: namespace,
      onChange: setNamespace,
    },
    {
      id: 'category',
      label: 'Error category',
      all: 'All categories',
      options: toolCallErrorCategory.options,
      value: category,
      onChange: setCategory,
    },
    {
      id: 'user',
      label: 'User',
      all: 'All users',
      options: values((call) => latestEvent(call)?.user),
      value: user,
      onChange: setUser,
    },
  ];
  const actions = (
    <>
      <Button kind="tertiary" size="md" onClick={() => setFrozen(frozen ? undefined : live)}>
        {frozen ? 'Resume' : 'Pause'}
      </Button>
      <Button
        kind="tertiary"
        size="md"
        onClick={() => {
          log.clear();
          setFrozen(frozen && []);
        }}
      >
        Clear
      </Button>
      <Button kind="tertiary" size="md" disabled={shown.length === 0} onClick={() => exportLines(shown)}>
        Export
      </Button>
    </>
  );
  // Until they are loaded, nobody knows that there are none.
  const isKnown = isLoaded || calls.length > 0;
  return (
    <PageFrame
      title="Tool calls"
      description="Calls as they happen, newest first. Argument values are never recorded."
      actions={actions}
    >
      {error !== undefined && <ErrorNotice title="Recent calls could not be loaded" error={error} onRetry={reload} />}
      {open !== '' && isLoaded && !opened && (
        <MissingNotice kind="recent tool call" name={open} onClose={() => setOpen('')} />
      )}
      <FilterBar
        search={search}
        onSearch={setSearch}
        placeholder="Search tool, forward, user, conversation or message"
        selects={selects}
      />
      <p role="status" className="live-status">
        {frozen ? `Paused; ${newer === -1 ? 'many' : newer} newer calls` : 'Live'}
        {log.dropped > 0 && `; the oldest ${log.dropped} were dropped`}
      </p>
      {(isKnown || error === undefined) && (
        <DataTable
          label="Tool calls"
          rows={isKnown ? shown : undefined}
          total={calls.length}
          columns={columns}
          rowKey={({ id }) => id}
          onOpen={({ id }) => setOpen(id)}
          empty={
            calls.length === 0 ? (
              <EmptyState
                title="No tool calls"
                text="Calls appear here as soon as an agent makes one."
                action={<Button href={routeTo('/namespaces', { open: DEFAULT_NAMESPACE })}>Connect an agent</Button>}
              />
            ) : (
              <UnmatchedState filters="the search or the filters" />
            )
          }
        />
      )}
      {opened && <CallDetails call={opened} calls={calls} onOpen={setOpen} onClose={() => setOpen('')} />}
    </PageFrame>
  );
}

function columnsOf(onOpen: (id: string) => void): readonly Column<LoggedCall>[] {
  return [
    {
      id: 'time',
      header: 'Time',
      accessorFn: (call) => beginOf(call) ?? '',
      cell: ({ row: { original } }) => timeOf(beginOf(original)),
    },
    {
      id: 'tool',
      header: 'Tool',
      accessorFn: (call) => latestEvent(call)?.toolName ?? '',
      cell: ({ row: { original } }) => <InertText text={latestEvent(original)?.toolName ?? ''} maxLength={100} />,
    },
    { id: 'namespace', header: 'Namespace', accessorFn: (call) => latestEvent(call)?.namespace ?? '' },
    {
      id: 'source',
      header: 'Executed by',
      accessorFn: sourceOf,
      cell: ({ row: { original } }) => <InertText text={sourceOf(original)} maxLength={80} />,
    },
    {
      id: 'outcome',
      header: 'Outcome',
      accessorFn: stateOf,
      cell: ({ row: { original } }) => <Tag type={TAG[stateOf(original)]}>{STATE_NAMES[stateOf(original)]}</Tag>,
    },
    {
      id: 'ms',
      header: 'ms',
      accessorFn: ({ ended }) => ended?.duration ?? -1,
      cell: ({ row: { original } }) => original.ended && DURATION.format(original.ended.duration),
    },
    {
      id: 'detail',
      header: 'Result',
      enableSorting: false,
      accessorFn: detailOf,
      cell: ({ row: { original } }) => <InertText text={detailOf(original)} maxLength={120} />,
    },
    actionsColumn((row) => ({ Details: () => onOpen(row.id) })),
  ];
}

/** Milliseconds. */
const DURATION = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

/** With fractions alone, only the milliseconds would be formatted. */
const TIME = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
});

/** Time when a call started, in the order of which calls are listed; of one that failed before, when it did. */
function beginOf({ started, ended }: LoggedCall): string | undefined {
  return (started ?? ended)?.timestamp;
}

function timeOf(timestamp: string | undefined): string {
  return timestamp === undefined ? '' : TIME.format(new Date(timestamp));
}

function sourceOf(call: LoggedCall): string {
  const event = latestEvent(call);
  return event?.forward ?? event?.serviceId ?? event?.serviceAddress ?? '';
}

function categoryOf({ ended }: LoggedCall): string | undefined {
  return ended?.eventType === 'FAILED' ? ended.errorCategory : undefined;
}

function detailOf({ ended }: LoggedCall): string {
  if (!ended) return '';
  return ended.eventType === 'FAILED' ? ended.errorMessage : ended.content.join(' ');
}

/** Saves the events of the calls as JSON Lines, oldest first. */
function exportLines(calls: readonly LoggedCall[]): void {
  const events = calls.toReversed().flatMap(({ started, ended }) => [started, ended].filter(Boolean));
  const lines = events.map((event) => `${JSON.stringify(event)}\n`);
  const url = URL.createObjectURL(new Blob(lines, { type: 'application/jsonl' }));
  Object.assign(document.createElement('a'), { href: url, download: 'tool-calls.jsonl' }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
