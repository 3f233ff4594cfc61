import type { PluginPage } from '@sluice/contract/plugin-host';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { type ConsolePage, SECTIONS } from '../pages/pages.ts';
import { ErrorNotice } from '../ui/notices.tsx';
import { PageFrame } from '../ui/page-frame.tsx';
import type { Registered } from './plugin-registry.ts';
import { usePlugins } from './plugins.tsx';

/** Returns the pages of the plugins, those with a menu entry with its label. */
export function usePluginPages(): readonly ConsolePage[] {
  const { navigation, pages } = usePlugins();
  return pages.map((page) => {
    const entry = navigation.find(({ item }) => item.route === page.item.route)?.item;
    const section = SECTIONS.find((known) => known === entry?.section) ?? 'Extensions';
    const label = entry?.label ?? page.plugin.name;
    return {
      route: page.item.route,
      label,
      section,
      order: entry?.order ?? 100,
      isHidden: entry === undefined,
      Component: componentOf(page, label),
    };
  });
}

const components = new WeakMap<Registered<PluginPage>, () => ReactNode>();

/** The same component for the same page, whose content would be mounted again otherwise. */
function componentOf(page: Registered<PluginPage>, title: string): () => ReactNode {
  const known = components.get(page);
  if (known) return known;
  const component = () => <MountedPage page={page} title={title} />;
  components.set(page, component);
  return component;
}

function MountedPage({
  page: { item, plugin },
  title,
}: {
  readonly page: Registered<PluginPage>;
  readonly title: string;
}) {
  const container = useRef<HTMLDivElement>(null);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    const element = container.current;
    if (!element) return undefined;
    try {
      const mounted = item.mount(element);
      return () => {
        mounted?.dispose();
        element.replaceChildren();
      };
    } catch (reason) {
      setError(reason);
      return undefined;
    }
  }, [item]);
  return (
    <PageFrame title={title} description={`Plugin ${plugin.name} ${plugin.version}`}>
      {error !== undefined && <ErrorNotice title="The plugin could not show its page" error={error} />}
      <div ref={container} />
    </PageFrame>
  );
}
