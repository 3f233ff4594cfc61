import { unwrap } from '@sluice/contract/client';
import { useCallback } from 'react';
import { type Service, useChange } from '../../api/queries.ts';
import { useToasts } from '../../ui/toasts.tsx';
import { toInput } from './service-form.tsx';

/** Returns a function that deletes the entries of a service's name and type, with a way to undo it. */
export function useDeleteService(services: readonly Service[] | undefined): (service: Service) => void {
  const toasts = useToasts();
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
    async (service) => {
      const { name, serviceType } = service;
      const deleted = services?.filter((other) => other.name === name && other.serviceType === serviceType) ?? [
        service,
      ];
      try {
        await deleteType(service);
        const undo = () => void create(deleted).catch((error) => toasts.fail(`${name} was not added again`, error));
        const title = deleted.length === 1 ? `Service ${name} deleted` : `${deleted.length} entries of ${name} deleted`;
        toasts.show({ kind: 'success', title, action: { label: 'Undo', run: undo } });
      } catch (error) {
        toasts.fail(`Service ${name} was not deleted`, error);
      }
    },
    [services, deleteType, create, toasts],
  );
}
