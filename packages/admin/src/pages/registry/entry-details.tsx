import { SkeletonText, Tab, TabList, TabPanel, TabPanels, Tabs } from '@carbon/react';
import { lazy, type ReactNode, Suspense, useState } from 'react';
import { isOverridden } from '../../api/entries.ts';
import { useMay } from '../../api/session.ts';
import { Comparison } from '../../ui/comparison.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { JsonView } from '../../ui/json-view.tsx';
import { loadModule } from '../../ui/load-module.ts';
import { DetailsModal } from '../../ui/modal.tsx';
import { routeTo } from '../../ui/route.ts';
import type { Entry } from './entry-kinds.ts';
import type { TryItProps } from './try-it.tsx';

/** MCP client and form library are loaded when the tab is opened. */
const TryIt = lazy(() => loadModule(() => import('./try-it.tsx')));

interface EntryDetailsProps {
  readonly entry: Entry;
  /** "Tool" */
  readonly label: string;
  readonly onClose: () => void;
  /** Rows of the overview: `dt` and `dd`. */
  readonly facts: ReactNode;
  /** Content of the overview below the rows. */
  readonly children?: ReactNode;
  /** What the tab "Try it" sends, which shadowed and disabled entries do not have: agents cannot use them. */
  readonly tryIt: Omit<TryItProps, 'namespace'>;
}

/** Everything known about an entry: overview, the upstream's definition beside ours, JSON. */
export function EntryDetails({ entry, label, onClose, facts, children, tryIt }: EntryDetailsProps) {
  const { name, namespace, description, forward, enabled, shadowed, labels } = entry;
  const canTry = useMay()('change_registry') && enabled && !shadowed;
  const [visited, setVisited] = useState<ReadonlySet<number>>(new Set([0]));
  const all = [
    {
      label: 'Overview',
      content: (
        <>
          {description !== '' && (
            <p className="prose">
              <InertText text={description} maxLength={20_000} />
            </p>
          )}
          <dl className="facts">
            <dt>Namespace</dt>
            <dd>
              <a href={routeTo('/namespaces', { open: namespace })}>{namespace}</a>
            </dd>
            {forward !== undefined && (
              <>
                <dt>Forward</dt>
                <dd>
                  <a href={routeTo('/forwards', { open: forward })}>
                    <InertText text={forward} />
                  </a>
                </dd>
              </>
            )}
            <dt>State</dt>
            <dd>{stateOf(enabled, shadowed === true)}</dd>
            {facts}
            {Object.keys(labels).length > 0 && (
              <>
                <dt>Labels</dt>
                <dd>
                  {Object.entries(labels).map(([key, value]) => (
                    <p key={key}>
                      <code>
                        <InertText text={`${key}=${value}`} maxLength={300} />
                      </code>
                    </p>
                  ))}
                </dd>
              </>
            )}
          </dl>
          {children}
        </>
      ),
    },
    ...(canTry ? [{ label: 'Try it', content: <LazyTryIt namespace={namespace} {...tryIt} /> }] : []),
    ...(entry.upstream === undefined ? [] : [{ label: 'Upstream', content: <UpstreamComparison entry={entry} /> }]),
    { label: 'JSON', content: <JsonView value={entry} label={`${name} as JSON`} /> },
  ];
  return (
    <DetailsModal heading={name} label={label} onClose={onClose}>
      <Tabs onChange={({ selectedIndex }) => setVisited((before) => new Set(before).add(selectedIndex))}>
        <TabList aria-label="Details">
          {all.map((tab) => (
            <Tab key={tab.label}>{tab.label}</Tab>
          ))}
        </TabList>
        <TabPanels>
          {all.map((tab, index) => (
            // What has been opened keeps its state.
            <TabPanel key={tab.label}>{visited.has(index) && tab.content}</TabPanel>
          ))}
        </TabPanels>
      </Tabs>
    </DetailsModal>
  );
}

function LazyTryIt(props: TryItProps) {
  return (
    <Suspense fallback={<SkeletonText paragraph />}>
      <TryIt {...props} />
    </Suspense>
  );
}

function stateOf(enabled: boolean, shadowed: boolean): string {
  if (shadowed) return 'Shadowed: an entry registered earlier has the same key and is served instead';
  return enabled ? 'Enabled' : 'Disabled: agents do not see it';
}

/** The members that can be changed, as the upstream has them and as agents get them. */
function UpstreamComparison({ entry }: { readonly entry: Entry }) {
  const { upstream } = entry;
  if (typeof upstream !== 'object' || upstream === null) return null;
  const members = Object.entries(upstream).map(([name, value]: [string, unknown]) => ({
    name,
    values: [value, entry[name]],
    isChanged: isOverridden(entry, name),
  }));
  return <Comparison columns={['On the upstream', 'What agents get']} members={members} />;
}
