import { Modal } from '@carbon/react';
import { type Client, unwrap } from '@sluice/contract/client';
import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useCallback, useState } from 'react';
import { useApi } from '../../api/api.ts';
import { type EntryKind, isChanged, readEntries } from '../../api/entries.ts';
import { type Forward, useChange } from '../../api/queries.ts';
import { useToasts } from '../../ui/toasts.tsx';

/** Everything that a forward changes. */
const AFFECTED = ['forwards', 'namespaces', 'tools', 'resources', 'prompts'] as const;

interface ForwardActions {
  /** Repeats discovery. */
  readonly refresh: (forward: Forward) => void;
  /** Deletes a forward; asks first if changes of operators would be lost. */
  readonly remove: (forward: Forward) => void;
  /** The question. */
  readonly confirmation: ReactNode;
}

/** Actions of a row of the forwards. */
export function useForwardActions(): ForwardActions {
  const toasts = useToasts();
  const { client } = useApi();
  const [asked, setAsked] = useState<{ readonly forward: Forward; readonly changed: number }>();
  const queries = useQueryClient();
  const deleteOne = useChange({ changes: AFFECTED, run: deleteForward });
  const create = useChange({ changes: AFFECTED, run: createForward });

  const refresh = useCallback(
    async (forward: Forward): Promise<void> => {
      try {
        const { tools_discovered, resources_discovered, prompts_discovered } = await refreshForward(
          client,
          forward.name,
        );
        const text = `${tools_discovered} tools, ${resources_discovered} resources, ${prompts_discovered} prompts`;
        toasts.show({ kind: 'success', title: `${forward.name} refreshed`, text });
      } catch (error) {
        toasts.fail(`${forward.name} was not refreshed`, error);
      }
      for (const kind of AFFECTED) void queries.invalidateQueries({ queryKey: [kind] });
    },
    [client, queries, toasts],
  );

  const deleteNow = useCallback(
    async (forward: Forward, canUndo: boolean): Promise<void> => {
      const { name } = forward;
      try {
        await deleteOne(name);
        const undo = () => void create(forward).catch((error) => toasts.fail(`${name} was not added again`, error));
        const action = canUndo && { action: { label: 'Undo', run: undo } };
        toasts.show({ kind: 'success', title: `Forward ${name} deleted`, ...action });
      } catch (error) {
        toasts.fail(`Forward ${name} was not deleted`, error);
      }
    },
    [deleteOne, create, toasts],
  );

  const remove = useCallback(
    async (forward: Forward): Promise<void> => {
      try {
        const changed = await countChanged(client, forward);
        if (changed === 0) await deleteNow(forward, true);
        else setAsked({ forward, changed });
      } catch (error) {
        toasts.fail(`Forward ${forward.name} was not deleted`, error);
      }
    },
    [client, deleteNow, toasts],
  );

  const confirmation = asked && (
    <Modal
      open
      danger
      size="sm"
      modalHeading={`Delete ${asked.forward.name}?`}
      primaryButtonText="Delete"
      secondaryButtonText="Cancel"
      onRequestClose={() => setAsked(undefined)}
      onRequestSubmit={() => {
        setAsked(undefined);
        void deleteNow(asked.forward, false);
      }}
    >
      <p>
        {asked.changed === 1 ? 'One of its entries has' : `${asked.changed} of its entries have`} been changed, moved or
        disabled by an operator. These changes are deleted with the forward, and cannot be restored.
      </p>
    </Modal>
  );
  return {
    refresh: useCallback((forward) => void refresh(forward), [refresh]),
    remove: useCallback((forward) => void remove(forward), [remove]),
    confirmation,
  };
}

function refreshForward(client: Client, name: string) {
  return unwrap(client.POST('/api/v1/forwards/{name}/refreshes', { params: { path: { name } } }));
}

function deleteForward(client: Client, name: string) {
  return unwrap(client.DELETE('/api/v1/forwards/{name}', { params: { path: { name } } }));
}

function createForward(client: Client, { name, address, namespace, labels, prefix, headers, expose }: Forward) {
  const body = {
    name,
    address,
    namespace,
    labels,
    ...(prefix && { prefix }),
    ...(headers && { headers }),
    ...(expose && { expose }),
  };
  return unwrap(client.POST('/api/v1/forwards', { body }));
}

const KINDS: readonly EntryKind[] = ['tools', 'resources', 'prompts'];

/** Number of discovered entries that operators have changed. */
async function countChanged(client: Client, forward: Forward): Promise<number> {
  const lists = await Promise.all(KINDS.map((kind) => readEntries(client, kind)));
  return lists.flatMap(({ entries }) => entries.filter((entry) => isChanged(entry, forward))).length;
}
