import { Add } from '@carbon/icons-react';
import { Button, Tag } from '@carbon/react';
import { useMemo, useState } from 'react';
import { type Service, useServices } from '../../api/queries.ts';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { FilterBar, matches } from '../../ui/filters.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { JsonView } from '../../ui/json-view.tsx';
import { DetailsModal } from '../../ui/modal.tsx';
import { EmptyState, ErrorNotice } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { routeTo, useParameter } from '../../ui/route.ts';
import { RowActions } from '../../ui/row-actions.tsx';
import { useDeleteService } from './delete-service.ts';
import { ProvisionForm } from './provision-form.tsx';
import { ServiceForm } from './service-form.tsx';

/** What an open dialog does. */
type OpenForm = { readonly kind: 'create' } | { readonly kind: 'edit' | 'provision'; readonly service: Service };

/** `#/services`: the capability services, gRPC servers behind tools and resources. */
export default function Services() {
  const { data, error, refetch } = useServices();
  const [open, setOpen] = useParameter('open', { push: true });
  const [search, setSearch] = useParameter('q');
  const [form, setForm] = useState<OpenForm>();
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
      {
        id: 'actions',
        header: 'Actions',
        enableSorting: false,
        cell: ({ row: { original } }) => (
          <RowActions
            actions={{
              Details: () => setOpen(original.name),
              Provision: () => setForm({ kind: 'provision', service: original }),
              Edit: () => setForm({ kind: 'edit', service: original }),
              Delete: () => remove(original),
            }}
          />
        ),
      },
    ],
    [remove, setOpen],
  );
  const shown = useMemo(
    () => data?.filter((service) => matches(search, service.name, typeOf(service), service.address)),
    [data, search],
  );
  const opened = data?.filter(({ name }) => name === open) ?? [];
  const closeForm = () => setForm(undefined);
  return (
    <PageFrame
      title="Services"
      description="Capability services: gRPC servers that invoke tools, provide resources or execute code."
      actions={
        <Button size="md" renderIcon={Add} onClick={() => setForm({ kind: 'create' })}>
          Add Service
        </Button>
      }
    >
      {error && !data && (
        <ErrorNotice title="Services could not be loaded" error={error} onRetry={() => void refetch()} />
      )}
      {data && data.length > 0 && (
        <FilterBar search={search} onSearch={setSearch} placeholder="Search name, type or address" />
      )}
      {(data || !error) && (
        <DataTable
          label="Services"
          rows={shown}
          total={data?.length}
          columns={columns}
          rowKey={keyOf}
          empty={
            data?.length === 0 ? (
              <EmptyState
                title="No services"
                text="Add the address of a capability service to use its tools and resources."
              />
            ) : (
              <EmptyState title="No service matches" text="Change the search." />
            )
          }
        />
      )}
      {form?.kind === 'create' && <ServiceForm onClose={closeForm} />}
      {form?.kind === 'edit' && <ServiceForm service={form.service} onClose={closeForm} />}
      {form?.kind === 'provision' && <ProvisionForm service={form.service} onClose={closeForm} />}
      {opened.length > 0 && !form && <ServiceDetails services={opened} onClose={() => setOpen('')} />}
    </PageFrame>
  );
}

/** Identifies a service entry: several may share a name. */
function keyOf({ name, serviceType, serviceSubType, languageName }: Service): string {
  return JSON.stringify([name, serviceType, serviceSubType, languageName]);
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
