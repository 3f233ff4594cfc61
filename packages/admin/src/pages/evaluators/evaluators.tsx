import { Add, ArrowDown, ArrowUp } from '@carbon/icons-react';
import { Button, IconButton, Tab, TabList, TabPanel, TabPanels, Tabs, Tag } from '@carbon/react';
import { useCallback, useMemo, useState } from 'react';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { EmptyState, ErrorNotice } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { useParameter } from '../../ui/route.ts';
import { useToasts } from '../../ui/toasts.tsx';
import { Bindings } from './bindings.tsx';
import { EvaluatorDetails } from './evaluator-details.tsx';
import { EvaluatorForm } from './evaluator-form.tsx';
import { type Evaluator, type EvaluatorSet, useEvaluatorChanges, useEvaluatorSet } from './evaluator-set.ts';
import { Revisions } from './revisions.tsx';

const TABS = ['evaluators', 'bindings', 'revisions'];

/** `#/evaluators`: the policy of the service, its bindings and its history. */
export default function Evaluators() {
  const { data, error, refetch } = useEvaluatorSet();
  const [tab, setTab] = useParameter('tab');
  const [open, setOpen] = useParameter('open', { push: true });
  const [edited, setEdited] = useState<Evaluator | 'new'>();
  const opened = data?.evaluators.find(({ name }) => name === open);
  return (
    <PageFrame
      title="Evaluators"
      description="Evaluators decide about requests of agents: a trigger selects them, a language model looks at them, and an action decides."
      actions={
        <Button size="md" renderIcon={Add} onClick={() => setEdited('new')}>
          Add Evaluator
        </Button>
      }
    >
      {error && !data && (
        <ErrorNotice title="Evaluators could not be loaded" error={error} onRetry={() => void refetch()} />
      )}
      <Tabs
        selectedIndex={Math.max(0, TABS.indexOf(tab))}
        onChange={({ selectedIndex }) => setTab(TABS[selectedIndex] ?? '')}
      >
        <TabList aria-label="Evaluators">
          <Tab>Evaluators</Tab>
          <Tab>Bindings</Tab>
          <Tab>Revisions</Tab>
        </TabList>
        <TabPanels>
          <TabPanel>{(data || !error) && <EvaluatorTable set={data} onOpen={setOpen} onEdit={setEdited} />}</TabPanel>
          <TabPanel>{tab === 'bindings' && <Bindings />}</TabPanel>
          <TabPanel>{tab === 'revisions' && <Revisions />}</TabPanel>
        </TabPanels>
      </Tabs>
      {edited && data && (
        <EvaluatorForm
          set={data}
          {...(edited !== 'new' && { evaluator: edited })}
          onClose={() => setEdited(undefined)}
        />
      )}
      {opened && !edited && <EvaluatorDetails evaluator={opened} onClose={() => setOpen('')} />}
    </PageFrame>
  );
}

interface EvaluatorTableProps {
  readonly set: EvaluatorSet | undefined;
  readonly onOpen: (name: string) => void;
  readonly onEdit: (evaluator: Evaluator) => void;
}

/** The evaluators in the order in which they run. */
function EvaluatorTable({ set, onOpen, onEdit }: EvaluatorTableProps) {
  const toasts = useToasts();
  const { replace, activate } = useEvaluatorChanges();

  const change = useCallback(
    async (evaluators: readonly Evaluator[], done: string): Promise<void> => {
      if (!set) return;
      const { revision } = set;
      try {
        await replace({ evaluators, revision });
        const undo = () => void activate(revision).catch((error) => toasts.fail('The change was not undone', error));
        toasts.show({
          kind: 'success',
          title: done,
          ...(revision > 0 && { action: { label: 'Undo', run: undo } }),
        });
      } catch (error) {
        toasts.fail('The evaluators were not changed', error);
      }
    },
    [set, replace, activate, toasts],
  );

  const columns = useMemo<readonly Column<Evaluator>[]>(() => {
    const all = set?.evaluators ?? [];
    const move = (evaluator: Evaluator, by: -1 | 1): void => {
      const from = all.findIndex(({ name }) => name === evaluator.name);
      const reordered = all.toSpliced(from, 1).toSpliced(from + by, 0, evaluator);
      void change(reordered, `${evaluator.name} runs ${by < 0 ? 'earlier' : 'later'}`);
    };
    return [
      {
        id: 'name',
        header: 'Name',
        enableSorting: false,
        cell: ({ row: { original } }) => (
          <>
            <InertText text={original.name} maxLength={200} />
            {set?.skipped.includes(original.name) && <Tag type="red">Skipped</Tag>}
          </>
        ),
      },
      {
        id: 'trigger',
        header: 'Trigger',
        enableSorting: false,
        cell: ({ row }) => <InertText text={triggerOf(row.original)} />,
      },
      { id: 'operation', header: 'Operation', enableSorting: false, cell: ({ row }) => row.original.llm.operation },
      {
        id: 'connection',
        header: 'Connection',
        enableSorting: false,
        cell: ({ row }) => <InertText text={row.original.llm.connection} />,
      },
      { id: 'failure', header: 'On failure', enableSorting: false, cell: ({ row }) => row.original.on_error },
      {
        id: 'actions',
        header: 'Actions',
        enableSorting: false,
        cell: ({ row: { original, index } }) => (
          <div className="row-actions">
            <IconButton
              kind="ghost"
              size="sm"
              label="Run earlier"
              align="left"
              disabled={index === 0}
              onClick={() => move(original, -1)}
            >
              <ArrowUp />
            </IconButton>
            <IconButton
              kind="ghost"
              size="sm"
              label="Run later"
              align="left"
              disabled={index === all.length - 1}
              onClick={() => move(original, 1)}
            >
              <ArrowDown />
            </IconButton>
            <Button kind="ghost" size="sm" onClick={() => onOpen(original.name)}>
              Details
            </Button>
            <Button kind="ghost" size="sm" onClick={() => onEdit(original)}>
              Edit
            </Button>
            <Button
              kind="ghost"
              size="sm"
              onClick={() =>
                void change(
                  all.filter(({ name }) => name !== original.name),
                  `${original.name} deleted`,
                )
              }
            >
              Delete
            </Button>
          </div>
        ),
      },
    ];
  }, [set, change, onOpen, onEdit]);
  return (
    <DataTable
      label="Evaluators"
      rows={set?.evaluators}
      columns={columns}
      rowKey={({ name }) => name}
      empty={
        <EmptyState
          title="No evaluators"
          text="Every request of agents passes. Add an evaluator to block, filter or annotate some of them."
        />
      }
    />
  );
}

/** Method and namespace that select requests. */
function triggerOf({ trigger: { method, namespace } }: Evaluator): string {
  return namespace === null ? method : `${method} in ${namespace}`;
}
