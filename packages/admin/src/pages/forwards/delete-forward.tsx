import { Modal } from '@carbon/react';
import { type Client, unwrap } from '@sluice/contract/client';
import { type ReactNode, useCallback, useState } from 'react';
import { useApi } from '../../api/api.ts';
import { ENTRY_KINDS, isChanged, readEntries } from '../../api/entries.ts';
import { type Forward, useChange } from '../../api/queries.ts';
import { useToasts } from '../../ui/toasts.tsx';
import { useUndoable } from '../../ui/undoable.ts';
import { AFFECTED } from './refresh-forward.ts';

/** Deletes forwards: at once, with a way to undo it; `confirmation` asks first if changes of operators would be lost. */
export function useDeleteForward(): { readonly remove: (forward: Forward) => void; readonly confirmation: ReactNode } {
  const toasts = useToasts();
  const { client } = useApi();
  const change = useUndoable();
  const [asked, setAsked] = useState<{ readonly forward: Forward; readonly changed: number }>();
  const deleteOne = useChange({ changes: AFFECTED, run: deleteForward });
  const create = useChange({ changes: AFFECTED, run: createForward });

  const deleteNow = useCallback(
    (forward: Forward, canUndo: boolean) => {
      const { name } = forward;
      return change({
        run: () => deleteOne(name),
        done: `Forward ${name} deleted`,
        failed: `Forward ${name} was not deleted`,
        undo: canUndo && { run: () => create(forward), failed: `${name} was not added again` },
      });
    },
    [change, deleteOne, create],
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
  return { remove: useCallback((forward) => void remove(forward), [remove]), confirmation };
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

/** Number of discovered entries that operators have changed. */
async function countChanged(client: Client, forward: Forward): Promise<number> {
  const lists = await Promise.all(ENTRY_KINDS.map((kind) => readEntries(client, kind)));
  return lists.flatMap(({ entries }) => entries.filter((entry) => isChanged(entry, forward))).length;
}
