import { type Client, unwrap } from '@sluice/contract/client';
import { type ReactNode, useCallback, useState } from 'react';
import { useApi } from '../../api/api.ts';
import { ENTRY_KINDS, isChanged, readEntries } from '../../api/entries.ts';
import { type Forward, useChange } from '../../api/queries.ts';
import { FormModal } from '../../ui/modal.tsx';
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

  const remove = useCallback(
    async (forward: Forward): Promise<void> => {
      const { name } = forward;
      const failed = `Forward ${name} was not deleted`;
      try {
        const changed = await countChanged(client, forward);
        if (changed > 0) return setAsked({ forward, changed });
        const undo = { run: () => create(forward), failed: `${name} was not added again` };
        await change({ run: () => deleteOne(name), done: deleted(name), failed, undo });
      } catch (error) {
        toasts.fail(failed, error);
      }
    },
    [client, change, deleteOne, create, toasts],
  );

  const confirmation = asked && (
    <FormModal
      heading={`Delete ${asked.forward.name}?`}
      submit="Delete"
      danger
      size="sm"
      body={asked.forward}
      onClose={() => setAsked(undefined)}
      onSubmit={async ({ name }) => {
        await deleteOne(name);
        toasts.show({ kind: 'success', title: deleted(name) });
      }}
    >
      <p>
        {asked.changed === 1 ? 'One of its entries has' : `${asked.changed} of its entries have`} been changed, moved or
        disabled by an operator. These changes are deleted with the forward, and cannot be restored.
      </p>
    </FormModal>
  );
  return { remove: useCallback((forward) => void remove(forward), [remove]), confirmation };
}

function deleted(name: string): string {
  return `Forward ${name} deleted`;
}

function deleteForward(client: Client, name: string) {
  return unwrap(client.DELETE('/api/v1/forwards/{name}', { params: { path: { name } } }));
}

function createForward(client: Client, forward: Forward) {
  const { name, address, namespace, labels, prefix, headers, expose, proxy, compression } = forward;
  const body = {
    name,
    address,
    namespace,
    labels,
    ...(prefix && { prefix }),
    ...(headers && { headers }),
    ...(expose && { expose }),
    ...(proxy !== undefined && { proxy }),
    ...(compression && { compression }),
  };
  return unwrap(client.POST('/api/v1/forwards', { body }));
}

/** Number of discovered entries that operators have changed. */
async function countChanged(client: Client, forward: Forward): Promise<number> {
  const lists = await Promise.all(ENTRY_KINDS.map((kind) => readEntries(client, kind)));
  return lists.flatMap(({ entries }) => entries.filter((entry) => isChanged(entry, forward))).length;
}
