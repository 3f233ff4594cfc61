import { type ComponentType, type LazyExoticComponent, lazy } from 'react';

/** Section of the menu; pages without one come first. */
export const SECTIONS = ['Developer', 'Admin', 'Extensions'] as const;
export type Section = (typeof SECTIONS)[number];

/** A page of the console. */
export interface ConsolePage {
  /** Route of the hash: `/tools` for `#/tools`. */
  readonly route: string;
  /** Label in the menu. */
  readonly label: string;
  readonly section?: Section;
  /** Position in the menu (decisions 1.7). */
  readonly order: number;
  /** It has no menu entry. */
  readonly isHidden?: boolean;
  /** Renders a `PageFrame`. Its code is loaded when the page is opened. */
  readonly Component: ComponentType | LazyExoticComponent<ComponentType>;
}

/** The pages of the console. To add one, add its folder and a line here. */
export const PAGES: readonly ConsolePage[] = [
  { route: '/', label: 'Home', order: 0, Component: lazy(() => import('./home/home.tsx')) },
  { route: '/tools', label: 'Tools', order: 10, Component: lazy(() => import('./registry/tools.tsx')) },
  { route: '/resources', label: 'Resources', order: 20, Component: lazy(() => import('./registry/resources.tsx')) },
  { route: '/prompts', label: 'Prompts', order: 30, Component: lazy(() => import('./registry/prompts.tsx')) },
  {
    route: '/llmchat',
    label: 'LLM chat',
    section: 'Developer',
    order: 40,
    Component: lazy(() => import('./llm-chat/llm-chat.tsx')),
  },
  {
    route: '/tool-calls',
    label: 'Tool calls',
    section: 'Developer',
    order: 41,
    Component: lazy(() => import('./tool-calls/tool-calls.tsx')),
  },
  {
    route: '/interactions',
    label: 'Interactions',
    section: 'Developer',
    order: 42,
    Component: lazy(() => import('./interactions/interactions.tsx')),
  },
  {
    route: '/metrics',
    label: 'Metrics',
    section: 'Developer',
    order: 43,
    Component: lazy(() => import('./metrics/metrics.tsx')),
  },
  {
    route: '/topology',
    label: 'Topology',
    section: 'Developer',
    order: 44,
    Component: lazy(() => import('./topology/topology.tsx')),
  },
  {
    route: '/tasks',
    label: 'Tasks',
    section: 'Developer',
    order: 45,
    Component: lazy(() => import('./tasks/tasks.tsx')),
  },
  {
    route: '/namespaces',
    label: 'Namespaces',
    section: 'Admin',
    order: 60,
    Component: lazy(() => import('./namespaces/namespaces.tsx')),
  },
  {
    route: '/forwards',
    label: 'Forwards',
    section: 'Admin',
    order: 70,
    Component: lazy(() => import('./forwards/forwards.tsx')),
  },
  {
    route: '/services',
    label: 'Services',
    section: 'Admin',
    order: 75,
    Component: lazy(() => import('./services/services.tsx')),
  },
  {
    route: '/evaluators',
    label: 'Evaluators',
    section: 'Admin',
    order: 80,
    Component: lazy(() => import('./evaluators/evaluators.tsx')),
  },
  {
    route: '/replicas',
    label: 'Replicas',
    section: 'Admin',
    order: 85,
    Component: lazy(() => import('./replicas/replicas.tsx')),
  },
  {
    route: '/plugins-admin',
    label: 'Installed Plugins',
    section: 'Admin',
    order: 90,
    Component: lazy(() => import('./plugins/plugins.tsx')),
  },
];
