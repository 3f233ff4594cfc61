import { Renew } from '@carbon/icons-react';
import { Button } from '@carbon/react';
import { type components, unwrap } from '@sluice/contract/client';
import { useMemo } from 'react';
import { useApiQuery } from '../../api/queries.ts';
import type { Column } from '../../ui/data-table.tsx';
import { FilterBar, matches } from '../../ui/filters.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { EmptyState, MissingNotice } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { useParameter } from '../../ui/route.ts';
import { actionsColumn } from '../../ui/row-actions.tsx';
import { InteractionDetails } from './interaction-details.tsx';

export type Interaction = components['schemas']['Interaction'];

/** `#/interactions`: the recorded completions, newest first. */
export default function Interactions() {
  const interactions = useApiQuery(['other', 'interactions'], async (client, signal) => {
    const found = await unwrap(client.GET('/api/v1/interactions', { params: { query: { bodies: 'false' } }, signal }));
    return found.toReversed();
  });
  const { data, refetch } = interactions;
  const [open, setOpen] = useParameter('open', { push: true });
  const [search, setSearch] = useParameter('q');
  const [model, setModel] = useParameter('model');
  const columns = useMemo<readonly Column<Interaction>[]>(
    () => [
      {
        id: 'time',
        header: 'Time',
        accessorFn: ({ epoch_ms }) => epoch_ms,
        cell: ({ row }) => new Date(row.original.epoch_ms).toLocaleString(),
      },
      textColumn('model', 'Model', ({ model: name }) => name),
      textColumn('conversation', 'Conversation', ({ conversation_id }) => conversation_id),
      textColumn('completion', 'Completion', ({ completion_id }) => completion_id),
      { id: 'status', header: 'Status', accessorFn: ({ status_code }) => status_code },
      { id: 'ms', header: 'ms', accessorFn: ({ duration_ms }) => Math.round(duration_ms) },
      actionsColumn((row) => ({ Details: () => setOpen(keyOf(row)) })),
    ],
    [setOpen],
  );
  const shown = useMemo(
    () =>
      data?.filter(
        (each) =>
          (model === '' || each.model === model) &&
          matches(search, each.model, each.conversation_id, each.completion_id, new Date(each.epoch_ms).toISOString()),
      ),
    [data, model, search],
  );
  const opened = data?.find((each) => keyOf(each) === open);
  return (
    <PageFrame
      title="Interactions"
      description="Completions that the inference listener has recorded, newest first. They are kept in memory."
      actions={
        <Button kind="tertiary" size="md" renderIcon={Renew} onClick={() => void refetch()}>
          Refresh
        </Button>
      }
    >
      {open !== '' && data && !opened && <MissingNotice kind="completion" name={open} onClose={() => setOpen('')} />}
      <FilterBar
        search={search}
        onSearch={setSearch}
        placeholder="Search model, conversation, completion or time"
        selects={[
          {
            id: 'model',
            label: 'Model',
            all: 'All models',
            options: [...new Set(data?.flatMap((each) => each.model ?? []))],
            value: model,
            onChange: setModel,
          },
        ]}
      />
      <QueryTable
        query={interactions}
        label="Interactions"
        rows={shown}
        all={data?.length}
        columns={columns}
        rowKey={keyOf}
        onOpen={(row) => setOpen(keyOf(row))}
        empty={
          <EmptyState
            title="No interactions"
            text="Point an agent's model at the inference listener, and its completions appear here."
            action={<Button onClick={() => void refetch()}>Check again</Button>}
          />
        }
        filters="the search or the model"
      />
      {opened && <InteractionDetails interaction={opened} onClose={() => setOpen('')} />}
    </PageFrame>
  );
}

function textColumn(
  id: string,
  header: string,
  value: (interaction: Interaction) => string | undefined,
): Column<Interaction> {
  return {
    id,
    header,
    accessorFn: (each) => value(each) ?? '',
    cell: ({ row }) => <InertText text={value(row.original) ?? '–'} maxLength={60} />,
  };
}

/** The id of a completion, or its time where it has none. */
function keyOf({ epoch_ms, completion_id }: Interaction): string {
  return `${epoch_ms} ${completion_id ?? ''}`.trim();
}
