import { Add } from '@carbon/icons-react';
import { Button, Tag } from '@carbon/react';
import { useMemo, useState } from 'react';
import { type Service, useServices } from '../../api/queries.ts';
import { Allowed } from '../../ui/allowed.tsx';
import type { Column } from '../../ui/data-table.tsx';
import { FilterBar, matches } from '../../ui/filters.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { JsonView } from '../../ui/json-view.tsx';
import { DetailsModal } from '../../ui/modal.tsx';
import { EmptyState, MissingNotice } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { routeTo, useEdited, useParameter } from '../../ui/route.ts';
import { actionsColumn } from '../../ui/row-actions.tsx';
import { useDeleteService } from './delete-service.ts';
import { ProvisionForm } from './provision-form.tsx';
import { keyOf, ServiceForm } from './service-form.tsx';

/** `#/services`: the capability services, gRPC servers behind tools and resources. */
export default function Services() {
  const services = useServices();
  const { data } = services;
  const [open, setOpen] = useParameter('open', { push: true });
  const [search, setSearch] = useParameter('q');
  const [edited, setEdited] = useEdited<Service>();
  const [provisioned, setProvisioned] = useState<Service>();
  const remove = useDeleteService(data);
  const columns = useMemo<readonly Column<Service>[]>(
    () => [
      {
        id: 'name',
        header: 'Name',
        accessorFn: ({ name }) => name,
        cell: ({ row }) => <InertText text={row.original.name} />,
      },
      { id: 'type', header: 'Type', accessorFn: typeOf },
      { id: 'address', header: 'Address', accessorFn: ({ address }) => address },
      {
        id: 'health',
        header: 'Health',
        accessorFn: ({ health }) => health,
        cell: ({ row }) => <HealthTag service={row.original} />,
      },
      actionsColumn((row) => ({
        Details: () => setOpen(row.name),
        Provision: () => setProvisioned(row),
        Edit: () => setEdited(row),
        Delete: () => remove(row),
      })),
    ],
    [remove, setEdited, setOpen],
  );
  const shown = useMemo(
    () => data?.filter((service) => matches(search, service.name, typeOf(service), service.address)),
    [data, search],
  );
  const opened = data?.filter(({ name }) => name === open) ?? [];
  return (
    <PageFrame
      title="Services"
      description="Capability services: gRPC servers that invoke tools, provide resources or execute code."
      actions={
        <Allowed right="change_registry">
          <Button size="md" renderIcon={Add} onClick={() => setEdited('new')}>
            Add Service
          </Button>
        </Allowed>
      }
    >
      {open !== '' && data && opened.length === 0 && (
        <MissingNotice kind="service" name={open} onClose={() => setOpen('')} />
      )}
      {data && data.length > 0 && (
        <FilterBar search={search} onSearch={setSearch} placeholder="Search name, type or address" />
      )}
      <QueryTable
        query={services}
        label="Services"
        rows={shown}
        all={data?.length}
        columns={columns}
        rowKey={keyOf}
        onOpen={({ name }) => setOpen(name)}
        empty={
          <EmptyState
            title="No services"
            text="Add the address of a capability service to use its tools and resources."
            action={
              <Allowed right="change_registry">
                <Button onClick={() => setEdited('new')}>Add the first service</Button>
              </Allowed>
            }
          />
        }
      />
      {edited && <ServiceForm {...(edited !== 'new' && { service: edited })} onClose={() => setEdited(undefined)} />}
      {provisioned && <ProvisionForm service={provisioned} onClose={() => setProvisioned(undefined)} />}
      {opened.length > 0 && !edited && !provisioned && <ServiceDetails services={opened} onClose={() => setOpen('')} />}
    </PageFrame>
  );
}

function typeOf({ serviceType, serviceSubType, languageName }: Service): string {
  const engine = [serviceSubType, languageName].filter((part) => part !== undefined).join('/');
  return engine === '' ? serviceType : `${serviceType} (${engine})`;
}

const TAGS = { healthy: 'green', pending: 'gray', unhealthy: 'red', down: 'red' } as const;

function HealthTag({ service: { health } }: { readonly service: Service }) {
  return <Tag type={TAGS[health]}>{health}</Tag>;
}

/** The entries of a name, with the tools and resources that use it. */
function ServiceDetails({
  services,
  onClose,
}: {
  readonly services: readonly Service[];
  readonly onClose: () => void;
}) {
  const name = services[0]?.name ?? '';
  return (
    <DetailsModal heading={name} label="Service" onClose={onClose}>
      {services.map((service) => (
        <dl key={keyOf(service)} className="facts">
          <dt>Type</dt>
          <dd>{typeOf(service)}</dd>
          <dt>Address</dt>
          <dd>{service.address}</dd>
          <dt>Health</dt>
          <dd>
            <HealthTag service={service} />
          </dd>
        </dl>
      ))}
      <p className="links">
        <a href={routeTo('/tools', { type: name })}>Tools of this service</a>
        <a href={routeTo('/resources', { type: name })}>Resources of this service</a>
      </p>
      <JsonView value={services.length === 1 ? services[0] : services} label={`${name} as JSON`} />
    </DetailsModal>
  );
}
