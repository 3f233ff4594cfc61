import { Renew } from '@carbon/icons-react';
import { Button, ClickableTile, SkeletonText } from '@carbon/react';
import { unwrap } from '@sluice/contract/client';
import { useQueryClient } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';
import { useApiQuery } from '../../api/queries.ts';
import { ErrorBoundary } from '../../ui/error-boundary.tsx';
import { loadModule } from '../../ui/load-module.ts';
import { ErrorNotice } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { routeTo } from '../../ui/route.ts';
import { Attention } from './attention.tsx';
import { MetricTables } from './metric-tables.tsx';

/** Charts are large: they come after the first paint. */
const LastHour = lazy(() => loadModule(() => import('./last-hour.tsx')));

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
