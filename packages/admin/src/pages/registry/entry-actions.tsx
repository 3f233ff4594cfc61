import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useCallback, useState } from 'react';
import { useApi } from '../../api/api.ts';
import { InertText } from '../../ui/inert-text.tsx';
import { FormModal } from '../../ui/modal.tsx';
import { useToasts } from '../../ui/toasts.tsx';
import type { Entry, EntryApi } from './entry-kinds.ts';

interface EntryActions<E extends Entry> {
  /** Enables or disables entries. */
  readonly setEnabled: (entries: readonly E[], enabled: boolean) => void;
  /** Deletes an entry; asks first if another one takes its place. */
  readonly remove: (entry: E, all: readonly E[]) => void;
  /** The question. */
  readonly confirmation: ReactNode;
}

/** Actions of the rows of a registry page. */
export function useEntryActions<E extends Entry>(api: EntryApi<E>): EntryActions<E> {
  const toasts = useToasts();
  const { client } = useApi();
  const queries = useQueryClient();
  const [asked, setAsked] = useState<{ readonly entry: E; readonly successor: E }>();

  /** Makes a change, and loads again what has changed. */
  const apply = useCallback(
    async (run: () => Promise<unknown>): Promise<void> => {
      try {
        await run();
      } finally {
        for (const kind of [api.kind, 'namespaces', 'forwards']) await queries.invalidateQueries({ queryKey: [kind] });
      }
    },
    [api, queries],
  );

  /** Makes a change and shows its error; resolves with whether it was made. */
  const change = useCallback(
    (failure: string, run: () => Promise<unknown>): Promise<boolean> =>
      apply(run).then(
        () => true,
        (error: unknown) => {
          toasts.fail(failure, error);
          return false;
        },
      ),
    [apply, toasts],
  );

  const setEnabled = useCallback(
    async (entries: readonly E[], enabled: boolean): Promise<void> => {
      const label = entries.length === 1 ? (entries[0]?.name ?? '') : `${entries.length} ${api.kind}`;
      const state = enabled ? 'enabled' : 'disabled';
      const enable = async (to: boolean): Promise<void> => {
        // A request selects entries of one namespace.
        for (const group of Map.groupBy(entries, ({ namespace }) => namespace).values())
          await api.enable(client, group, to);
      };
      if (!(await change(`${label} could not be ${state}`, () => enable(enabled)))) return;
      const undo = () => void change(`${label} could not be changed back`, () => enable(!enabled));
      toasts.show({ kind: 'success', title: `${label} ${state}`, action: { label: 'Undo', run: undo } });
    },
    [api, client, change, toasts],
  );

  /** Says that an entry was deleted, and offers what can be done about it. */
  const showDeleted = useCallback(
    (entry: E, canUndo: boolean): void => {
      const { name, forward } = entry;
      const restore = () => void change(`${name} was not created again`, () => api.restore(client, entry));
      if (forward === undefined) {
        const action = canUndo && { action: { label: 'Undo', run: restore } };
        return toasts.show({ kind: 'success', title: `${name} deleted`, ...action });
      }
      const disable = () =>
        void change(`${name} could not be disabled`, () => api.disableDiscovered(client, entry, forward));
      toasts.show({
        kind: 'warning',
        title: `${name} deleted`,
        text: `The next discovery of ${forward} registers it again, unless it is disabled.`,
        action: { label: 'Disable it', run: disable },
      });
    },
    [api, client, change, toasts],
  );

  const remove = useCallback(
    async (entry: E, all: readonly E[]): Promise<void> => {
      const successor = all.find(
        (other) => other.shadowed && other.namespace === entry.namespace && api.key(other) === api.key(entry),
      );
      if (successor) return setAsked({ entry, successor });
      if (await change(`${entry.name} was not deleted`, () => api.remove(client, entry))) showDeleted(entry, true);
    },
    [api, client, change, showDeleted],
  );

  const confirmation = asked && (
    <FormModal
      heading={`Delete ${asked.entry.name}?`}
      submit="Delete"
      danger
      size="sm"
      body={asked.entry}
      onClose={() => setAsked(undefined)}
      onSubmit={async (entry) => {
        await apply(() => api.remove(client, entry));
        showDeleted(entry, false);
      }}
    >
      <p>
        Agents will get the {api.singular} of the same name{' '}
        <InertText
          text={asked.successor.forward ? `of the forward ${asked.successor.forward}` : 'that was registered later'}
        />{' '}
        instead, which keeps the name: the deletion cannot be undone.
      </p>
    </FormModal>
  );
  return {
    setEnabled: useCallback((entries, enabled) => void setEnabled(entries, enabled), [setEnabled]),
    remove: useCallback((entry, all) => void remove(entry, all), [remove]),
    confirmation,
  };
}
