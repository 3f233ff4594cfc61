import { Add, ArrowDown, ArrowUp } from '@carbon/icons-react';
import { Button, IconButton, Tab, TabList, TabPanel, TabPanels, Tabs, Tag } from '@carbon/react';
import type { UseQueryResult } from '@tanstack/react-query';
import { useCallback, useMemo } from 'react';
import { type Evaluator, type EvaluatorSet, useEvaluatorSet } from '../../api/queries.ts';
import { Allowed } from '../../ui/allowed.tsx';
import type { Column } from '../../ui/data-table.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { EmptyState, MissingNotice } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { useEdited, useParameter } from '../../ui/route.ts';
import { RowActions } from '../../ui/row-actions.tsx';
import { useUndoable } from '../../ui/undoable.ts';
import { Bindings } from './bindings.tsx';
import { useEvaluatorChanges } from './evaluator-changes.ts';
import { EvaluatorDetails } from './evaluator-details.tsx';
import { EvaluatorForm } from './evaluator-form.tsx';
import { Revisions } from './revisions.tsx';

const TABS = ['evaluators', 'bindings', 'revisions'];

/** `#/evaluators`: the policy of the service, its bindings and its history. */
export default function Evaluators() {
  const set = useEvaluatorSet();
  const { data } = set;
  const [tab, setTab] = useParameter('tab');
  const [open, setOpen] = useParameter('open', { push: true });
  const [edited, setEdited] = useEdited<Evaluator>();
  const opened = data?.evaluators.find(({ name }) => name === open);
  return (
    <PageFrame
      title="Evaluators"
      description="Evaluators decide about requests of agents: a trigger selects them, a language model looks at them, and an action decides."
      actions={
        <Allowed right="administer">
          <Button size="md" renderIcon={Add} onClick={() => setEdited('new')}>
            Add Evaluator
          </Button>
        </Allowed>
      }
    >
      {open !== '' && data && !opened && <MissingNotice kind="evaluator" name={open} onClose={() => setOpen('')} />}
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
          <TabPanel>
            <EvaluatorTable query={set} onAdd={() => setEdited('new')} onOpen={setOpen} onEdit={setEdited} />
          </TabPanel>
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
  readonly query: UseQueryResult<EvaluatorSet>;
  readonly onAdd: () => void;
  readonly onOpen: (name: string) => void;
  readonly onEdit: (evaluator: Evaluator) => void;
}

/** The evaluators in the order in which they run. */
function EvaluatorTable({ query, onAdd, onOpen, onEdit }: EvaluatorTableProps) {
  const { data: set } = query;
  const undoable = useUndoable();
  const { replace, activate } = useEvaluatorChanges();

  const change = useCallback(
    (evaluators: readonly Evaluator[], done: string): void => {
      const revision = set?.revision ?? 0;
      void undoable({
        run: () => replace({ evaluators, revision }),
        done,
        failed: 'The evaluators were not changed',
        undo: revision > 0 && { run: () => activate(revision), failed: 'The change was not undone' },
      });
    },
    [set, undoable, replace, activate],
  );

  const columns = useMemo<readonly Column<Evaluator>[]>(() => {
    const all = set?.evaluators ?? [];
    const move = (evaluator: Evaluator, by: -1 | 1): void => {
      const from = all.findIndex(({ name }) => name === evaluator.name);
      const reordered = all.toSpliced(from, 1).toSpliced(from + by, 0, evaluator);
      change(reordered, `${evaluator.name} runs ${by < 0 ? 'earlier' : 'later'}`);
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
            <Allowed right="administer">
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
            </Allowed>
            <RowActions
              right="administer"
              actions={{
                Details: () => onOpen(original.name),
                Edit: () => onEdit(original),
                Delete: () =>
                  change(
                    all.filter(({ name }) => name !== original.name),
                    `${original.name} deleted`,
                  ),
              }}
            />
          </div>
        ),
      },
    ];
  }, [set, change, onOpen, onEdit]);
  return (
    <QueryTable
      query={query}
      label="Evaluators"
      rows={set?.evaluators}
      all={set?.evaluators.length}
      columns={columns}
      rowKey={({ name }) => name}
      onOpen={({ name }) => onOpen(name)}
      empty={
        <EmptyState
          title="No evaluators"
          text="Every request of agents passes. Add an evaluator to block, filter or annotate some of them."
          action={
            <Allowed right="administer">
              <Button onClick={onAdd}>Add the first evaluator</Button>
            </Allowed>
          }
        />
      }
    />
  );
}

/** Method and namespace that select requests. */
function triggerOf({ trigger: { method, namespace } }: Evaluator): string {
  return namespace === null ? method : `${method} in ${namespace}`;
}
