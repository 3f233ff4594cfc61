import { unwrap } from '@sluice/contract/client';
import { useCallback } from 'react';
import { type Service, useChange } from '../../api/queries.ts';
import { useUndoable } from '../../ui/undoable.ts';
import { toInput } from './service-form.tsx';

/** Returns a function that deletes the entries of a service's name and type, with a way to undo it. */
export function useDeleteService(services: readonly Service[] | undefined): (service: Service) => void {
  const change = useUndoable();
  const deleteType = useChange({
    changes: ['services'],
    run: (client, { name, serviceType }: Service) =>
      unwrap(client.DELETE('/api/v1/services/{name}', { params: { path: { name }, query: { serviceType } } })),
  });
  const create = useChange({
    changes: ['services'],
    run: (client, deleted: readonly Service[]) =>
      Promise.all(deleted.map((service) => unwrap(client.POST('/api/v1/services', { body: toInput(service) })))),
  });
  return useCallback(
    (service) => {
      const { name, serviceType } = service;
      const deleted = services?.filter((other) => other.name === name && other.serviceType === serviceType) ?? [
        service,
      ];
      void change({
        run: () => deleteType(service),
        done: deleted.length === 1 ? `Service ${name} deleted` : `${deleted.length} entries of ${name} deleted`,
        failed: `Service ${name} was not deleted`,
        undo: { run: () => create(deleted), failed: `${name} was not added again` },
      });
    },
    [services, change, deleteType, create],
  );
}
