import { Add } from '@carbon/icons-react';
import { Button, MenuButton, MenuItem, Tag, Toggle } from '@carbon/react';
import type { UseQueryResult } from '@tanstack/react-query';
import { type ComponentType, type ReactNode, useDeferredValue, useMemo } from 'react';
import { useApi } from '../../api/api.ts';
import { type EntryKind, isOverridden, type LongList, useEntries } from '../../api/entries.ts';
import { useMay } from '../../api/session.ts';
import { Allowed } from '../../ui/allowed.tsx';
import { useConflicts } from '../../ui/conflict.tsx';
import type { Column } from '../../ui/data-table.tsx';
import { FilterBar, matches } from '../../ui/filters.tsx';
import { InertText, visibleText } from '../../ui/inert-text.tsx';
import { EmptyState, MissingNotice } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { routeTo, useEdited, useParameter } from '../../ui/route.ts';
import { actionsColumn } from '../../ui/row-actions.tsx';
import { useEntryActions } from './entry-actions.tsx';
import { type Entry, type EntryApi, writable } from './entry-kinds.ts';

/** Properties of a dialog about an entry. */
export interface EntryDialogProps<E extends Entry> {
  readonly entry: E;
  readonly onClose: () => void;
}

/** Properties of the dialog that creates an entry, or changes one. */
export interface EntryFormProps<E extends Entry> {
  readonly entry?: E;
  readonly onClose: () => void;
}

interface EntriesPageProps<E extends Entry> {
  readonly api: EntryApi<E>;
  readonly title: string;
  readonly description: string;
  readonly list: UseQueryResult<LongList<E>>;
  /** Columns between the description and the namespace. */
  readonly columns: readonly Column<E>[];
  /** Type label of an entry, to filter by. */
  readonly typeOf?: (entry: E) => string;
  readonly Form: ComponentType<EntryFormProps<E>>;
  readonly Details: ComponentType<EntryDialogProps<E>>;
  /** Further buttons beside the title. */
  readonly actions?: ReactNode;
}

/** States to filter by. */
const STATES = ['Enabled', 'Disabled', 'Shadowed', 'Changed'] as const;

/** A page of tools, resources or prompts: filters, table, details, and all changes. */
export function EntriesPage<E extends Entry>(props: EntriesPageProps<E>) {
  const { api, title, description, list, columns: ownColumns, typeOf, Form, Details, actions } = props;
  const { data } = list;
  const may = useMay();
  const [search, setSearch] = useParameter('q');
  const [namespace, setNamespace] = useParameter('namespace');
  const [forward, setForward] = useParameter('forward');
  const [type, setType] = useParameter('type');
  const [state, setState] = useParameter('state');
  const [open, setOpen] = useParameter('open', { push: true });
  const [edited, setEdited] = useEdited<E>();
  const { setEnabled, remove, confirmation } = useEntryActions(api);
  const entries = data?.entries;

  const columns = useMemo<readonly Column<E>[]>(
    () => [
      {
        id: 'name',
        header: 'Name',
        accessorFn: ({ name }) => name,
        cell: ({ row }) => <EntryName entry={row.original} />,
      },
      {
        id: 'description',
        header: 'Description',
        enableSorting: false,
        cell: ({ row }) => (
          <span className="clamped">
            <InertText text={row.original.description} maxLength={300} />
          </span>
        ),
      },
      ...ownColumns,
      { id: 'namespace', header: 'Namespace', accessorFn: (entry) => entry.namespace },
      {
        id: 'forward',
        header: 'Forward',
        accessorFn: (entry) => entry.forward ?? '',
        cell: ({ row }) =>
          row.original.forward === undefined ? '–' : <InertText text={row.original.forward} maxLength={80} />,
      },
      {
        id: 'enabled',
        header: 'Enabled',
        accessorFn: ({ enabled }) => enabled,
        cell: ({ row: { original } }) => (
          <EnabledToggle entry={original} onToggle={(to) => setEnabled([original], to)} />
        ),
      },
      actionsColumn((row) => ({
        Details: () => setOpen(idOf(api, row)),
        ...(!row.shadowed && {
          Edit: () => setEdited(row),
          Delete: () => remove(row, entries ?? []),
        }),
      })),
    ],
    [api, ownColumns, entries, setEnabled, remove, setEdited, setOpen],
  );

  // Typing stays fluent while a long list is filtered.
  const wanted = useDeferredValue(search);
  const shown = useMemo(
    () =>
      entries?.filter(
        (entry) =>
          (namespace === '' || entry.namespace === namespace) &&
          (forward === '' || entry.forward === forward) &&
          (type === '' || typeOf?.(entry) === type) &&
          (state === '' || hasState(entry, state)) &&
          matches(wanted, entry.name, titleOf(entry), entry.description, entry.namespace, entry.forward),
      ),
    [entries, wanted, namespace, forward, type, state, typeOf],
  );
  const opened = entries?.find((entry) => idOf(api, entry) === open);
  // Of very long lists only the beginning is loaded.
  const isMissing = open !== '' && data !== undefined && !opened && data.total === data.entries.length;
  const changeable = shown?.filter(({ shadowed }) => !shadowed) ?? [];
  const filter = (
    label: string,
    [value, onChange]: readonly [string, (to: string) => void],
    options: readonly string[],
  ) => ({
    id: label.toLowerCase(),
    label,
    all: `Any ${label.toLowerCase()}`,
    options,
    value,
    onChange,
  });
  return (
    <PageFrame
      title={title}
      description={description}
      actions={
        <>
          {changeable.length > 1 && may('change_registry') && (
            <MenuButton label={`Change all ${changeable.length}`} kind="tertiary" size="md">
              <MenuItem label="Enable all shown" onClick={() => setEnabled(changeable, true)} />
              <MenuItem label="Disable all shown" onClick={() => setEnabled(changeable, false)} />
            </MenuButton>
          )}
          {actions}
          <Allowed right="change_registry">
            <Button size="md" renderIcon={Add} onClick={() => setEdited('new')}>
              {`Create ${api.singular}`}
            </Button>
          </Allowed>
        </>
      }
    >
      {isMissing && <MissingNotice kind={api.singular} name={open} onClose={() => setOpen('')} />}
      {entries && (entries.length > 0 || search !== '') && (
        <FilterBar
          search={search}
          onSearch={setSearch}
          placeholder="Search name, description, namespace or forward"
          selects={[
            filter(
              'Namespace',
              [namespace, setNamespace],
              distinct(entries, (entry) => entry.namespace),
            ),
            filter(
              'Forward',
              [forward, setForward],
              distinct(entries, (entry) => entry.forward),
            ),
            ...(typeOf ? [filter('Type', [type, setType], distinct(entries, typeOf))] : []),
            filter('State', [state, setState], STATES),
          ]}
        />
      )}
      <QueryTable
        query={list}
        label={title}
        rows={shown}
        all={entries?.length === 0 && search === '' ? 0 : data?.total}
        columns={columns}
        rowKey={(entry) => idOf(api, entry)}
        onOpen={(entry) => setOpen(idOf(api, entry))}
        empty={
          <EmptyState
            title={`No ${api.kind}`}
            text={`Add a forward to discover the ${api.kind} of an MCP server, or create a ${api.singular} of a capability service.`}
            action={
              <Allowed right="change_registry">
                <Button href={routeTo('/forwards', { new: 'true' })}>Add a server</Button>
              </Allowed>
            }
          />
        }
        filters="the search or the filters"
      />
      {edited && <Form {...(edited !== 'new' && { entry: edited })} onClose={() => setEdited(undefined)} />}
      {confirmation}
      {opened && !edited && <Details entry={opened} onClose={() => setOpen('')} />}
    </PageFrame>
  );
}

/** The entries of a kind; where they are too many to load, those that match the search. */
export function useSearchedEntries<K extends EntryKind>(kind: K) {
  const [search] = useParameter('q');
  const all = useEntries(kind);
  const isPartial = all.data !== undefined && all.data.total > all.data.entries.length;
  const found = useEntries(kind, isPartial ? search : '');
  return isPartial && search !== '' ? found : all;
}

/** Detects changes of others to the entry that a form changes. */
export function useEntryConflicts<E extends Entry>(api: EntryApi<E>, entry: E | undefined) {
  const { client } = useApi();
  return useConflicts(entry && writable(entry), async () => (entry ? writable(await api.read(client, entry)) : {}));
}

/** Identifies an entry, shadowed ones included. */
function idOf<E extends Entry>(api: EntryApi<E>, entry: E): string {
  return [entry.namespace, api.key(entry), ...(entry.shadowed ? [entry.forward ?? ''] : [])].join('/');
}

function EntryName({ entry }: { readonly entry: Entry }) {
  return (
    <>
      <InertText text={entry.name} maxLength={200} />
      {entry.shadowed && (
        <Tag type="warm-gray" size="sm" title="Another entry, registered earlier, has the same key">
          Shadowed
        </Tag>
      )}
      {isChangedByOperator(entry) && (
        <Tag type="purple" size="sm" title="Differs from the upstream">
          Changed
        </Tag>
      )}
    </>
  );
}

function EnabledToggle({ entry, onToggle }: { readonly entry: Entry; readonly onToggle: (enabled: boolean) => void }) {
  const may = useMay();
  return (
    <Toggle
      id={`enabled-${entry.namespace}-${entry.name}-${entry.forward ?? ''}`}
      size="sm"
      className="row-toggle"
      hideLabel
      labelText={`${visibleText(entry.name)} enabled`}
      toggled={entry.enabled}
      disabled={entry.shadowed === true || !may('change_registry')}
      onToggle={onToggle}
    />
  );
}

/** Whether a member of a discovered entry differs from the upstream's. */
function isChangedByOperator(entry: Entry): boolean {
  const { upstream } = entry;
  return (
    typeof upstream === 'object' && upstream !== null && Object.keys(upstream).some((name) => isOverridden(entry, name))
  );
}

function hasState(entry: Entry, state: string): boolean {
  if (state === 'Shadowed') return entry.shadowed === true;
  if (state === 'Changed') return isChangedByOperator(entry);
  // Agents get the entry that holds the name instead.
  return entry.enabled === (state === 'Enabled') && !entry.shadowed;
}

function titleOf({ title }: Entry): string | undefined {
  return typeof title === 'string' ? title : undefined;
}

function distinct<E>(entries: readonly E[], select: (entry: E) => string | undefined): string[] {
  return [...new Set(entries.map(select))].filter((value) => value !== undefined);
}
