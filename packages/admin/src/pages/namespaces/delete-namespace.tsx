import { ApiError, type Client, unwrap } from '@sluice/contract/client';
import { type ReactNode, useCallback, useState } from 'react';
import { type Namespace, useChange } from '../../api/queries.ts';
import { FormModal } from '../../ui/modal.tsx';
import { useToasts } from '../../ui/toasts.tsx';

/** Numbers of what a namespace contains, as the service counts them. */
type Contents = Readonly<Record<string, unknown>>;

/**
 * Deletes namespaces: an empty one at once, with a way to undo it; for one with contents, `confirmation` is a dialog that
 * says what goes with it.
 */
export function useDeleteNamespace(): {
  readonly remove: (namespace: Namespace) => void;
  readonly confirmation: ReactNode;
} {
  const toasts = useToasts();
  const [asked, setAsked] = useState<{ readonly namespace: Namespace; readonly contents: Contents }>();
  const deleteEmpty = useChange({ changes: ['namespaces'], run: deleteNamespace });
  const deleteAll = useChange({
    changes: ['namespaces', 'forwards', 'tools', 'resources', 'prompts'],
    run: (client: Client, name: string) => deleteNamespace(client, name, true),
  });
  const create = useChange({
    changes: ['namespaces'],
    run: (client, body: Namespace) => unwrap(client.POST('/api/v1/namespaces', { body })),
  });

  const remove = useCallback(
    async (namespace: Namespace): Promise<void> => {
      const { name } = namespace;
      try {
        await deleteEmpty(name);
        const undo = () => void create(namespace).catch((error) => toasts.fail(`${name} was not created again`, error));
        toasts.show({
          kind: 'success',
          title: `Namespace ${name} deleted`,
          action: { label: 'Undo', run: undo },
        });
      } catch (error) {
        const isFull = error instanceof ApiError && error.code === 'CONFLICT' && error.details !== undefined;
        if (isFull && !Array.isArray(error.details)) setAsked({ namespace, contents: error.details });
        else toasts.fail(`Namespace ${name} was not deleted`, error);
      }
    },
    [deleteEmpty, create, toasts],
  );

  const confirmation = asked && (
    <FormModal
      heading={`Delete ${asked.namespace.name} and its contents?`}
      submit="Delete all"
      danger
      size="sm"
      body={asked.namespace}
      onClose={() => setAsked(undefined)}
      onSubmit={async ({ name }) => {
        await deleteAll(name);
        toasts.show({ kind: 'success', title: `Namespace ${name} and its contents deleted` });
      }}
    >
      <p>It is not empty. These are deleted with it, and cannot be restored:</p>
      <ul className="contents">
        {Object.entries(asked.contents)
          .filter(([, count]) => typeof count === 'number' && count > 0)
          .map(([kind, count]) => (
            <li key={kind}>
              {String(count)} {count === 1 ? kind.replace(/s$/, '') : kind}
            </li>
          ))}
      </ul>
    </FormModal>
  );
  return { remove: useCallback((namespace) => void remove(namespace), [remove]), confirmation };
}

function deleteNamespace(client: Client, name: string, cascade = false): Promise<unknown> {
  const query = cascade ? { cascade: 'true' as const } : {};
  return unwrap(client.DELETE('/api/v1/namespaces/{name}', { params: { path: { name }, query } }));
}
