import { Renew } from '@carbon/icons-react';
import { Button, ClickableTile, SkeletonText } from '@carbon/react';
import { unwrap } from '@sluice/contract/client';
import { useQueryClient } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';
import { useApiQuery, useForwards, useServices } from '../../api/queries.ts';
import { ErrorBoundary } from '../../ui/error-boundary.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { ErrorNotice } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { routeTo } from '../../ui/route.ts';
import { MetricTables } from './metric-tables.tsx';

/** Charts are large: they come after the first paint. */
const LastHour = lazy(() => import('./last-hour.tsx'));

/** `#/`: whether the service is well, and what needs attention. */
export default function Home() {
  const queries = useQueryClient();
  return (
    <PageFrame
      title="Dashboard"
      description="A system overview: what is registered, what needs attention, and how requests are processed."
      actions={
        <Button kind="tertiary" size="md" renderIcon={Renew} onClick={() => void queries.invalidateQueries()}>
          Refresh
        </Button>
      }
    >
      <Tiles />
      <Attention />
      <ErrorBoundary title="The plots could not be shown">
        <Suspense fallback={<SkeletonText paragraph lineCount={3} />}>
          <LastHour />
        </Suspense>
      </ErrorBoundary>
      <MetricTables />
    </PageFrame>
  );
}

const TILES = [
  { label: 'Tools', route: '/tools', member: 'toolsCount' },
  { label: 'Resources', route: '/resources', member: 'resourcesCount' },
  { label: 'Prompts', route: '/prompts', member: 'promptsCount' },
  { label: 'Forwards', route: '/forwards', member: 'forwardsCount' },
] as const;

function Tiles() {
  const { data, error, refetch } = useApiQuery(['tools', 'statistics'], (client, signal) =>
    unwrap(client.GET('/api/v1/management/statistics', { signal })),
  );
  if (error)
    return <ErrorNotice title="The numbers could not be loaded" error={error} onRetry={() => void refetch()} />;
  return (
    <div className="hero-tiles">
      {TILES.map(({ label, route, member }) => (
        <ClickableTile key={label} href={routeTo(route)} className="hero-tile">
          <span className="hero-label">{label}</span>
          <span className="hero-value">{data ? data[member].toLocaleString() : <SkeletonText width="3rem" />}</span>
        </ClickableTile>
      ))}
    </div>
  );
}

/** Something that does not work, and where to mend it. */
interface Problem {
  readonly key: string;
  readonly title: string;
  readonly reason: string;
  readonly href: string;
}

function Attention() {
  const { data: forwards } = useForwards();
  const { data: services } = useServices();
  if (!forwards || !services) return <SkeletonText paragraph lineCount={2} />;
  const problems: Problem[] = [
    ...forwards
      .filter(({ available, statusMessage }) => !available || statusMessage !== undefined)
      .map(({ name, available, statusMessage = '' }) => ({
        key: `forward ${name}`,
        title: `Forward ${name} ${available ? 'has warnings' : 'is unavailable'}`,
        reason: statusMessage,
        href: routeTo('/forwards', { open: name }),
      })),
    ...services
      .filter(({ health }) => health === 'unhealthy' || health === 'down')
      .map(({ name, serviceType, serviceSubType, languageName, health, address }) => ({
        key: JSON.stringify([name, serviceType, serviceSubType, languageName]),
        title: `Service ${name} is ${health}`,
        reason: `${serviceType} at ${address}`,
        href: routeTo('/services', { open: name }),
      })),
  ];
  return (
    <section aria-labelledby="attention">
      <h2 id="attention" className="section-title">
        Needs attention
      </h2>
      {problems.length === 0 ? (
        <p>Nothing: all forwards and services work.</p>
      ) : (
        <ul className="problems">
          {problems.map(({ key, title, reason, href }) => (
            <li key={key}>
              <a href={href}>
                <InertText text={title} />
              </a>
              {reason !== '' && (
                <p>
                  <InertText text={reason} maxLength={300} />
                </p>
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
