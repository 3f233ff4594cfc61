import { type ComponentType, type LazyExoticComponent, lazy } from 'react';
import type { Right } from '../api/session.ts';
import { loadModule } from '../ui/load-module.ts';

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
  /** Position in the menu. */
  readonly order: number;
  /** What it requires, if not only `read`. */
  readonly right?: Right;
  /** It has no menu entry where nobody can sign in. */
  readonly needsSignIn?: true;
  /** It has no menu entry. */
  readonly isHidden?: boolean;
  /** Renders a `PageFrame`. Its code is loaded when the page is opened, or before. */
  readonly Component: ComponentType | LazyExoticComponent<ComponentType>;
  /** Loads its code before it is opened. */
  readonly load?: () => Promise<unknown>;
}

function page(load: () => Promise<{ readonly default: ComponentType }>) {
  return { Component: lazy(() => loadModule(load)), load };
}

/** The pages of the console. To add one, add its folder and a line here. */
export const PAGES: readonly ConsolePage[] = [
  { route: '/', label: 'Home', order: 0, ...page(() => import('./home/home.tsx')) },
  { route: '/tools', label: 'Tools', order: 10, ...page(() => import('./registry/tools.tsx')) },
  { route: '/resources', label: 'Resources', order: 20, ...page(() => import('./registry/resources.tsx')) },
  { route: '/prompts', label: 'Prompts', order: 30, ...page(() => import('./registry/prompts.tsx')) },
  {
    route: '/llmchat',
    label: 'LLM chat',
    section: 'Developer',
    order: 40,
    right: 'change_registry',
    ...page(() => import('./llm-chat/llm-chat.tsx')),
  },
  {
    route: '/tool-calls',
    label: 'Tool calls',
    section: 'Developer',
    order: 41,
    ...page(() => import('./tool-calls/tool-calls.tsx')),
  },
  {
    route: '/interactions',
    label: 'Interactions',
    section: 'Developer',
    order: 42,
    right: 'read_bodies',
    ...page(() => import('./interactions/interactions.tsx')),
  },
  {
    route: '/metrics',
    label: 'Metrics',
    section: 'Developer',
    order: 43,
    ...page(() => import('./metrics/metrics.tsx')),
  },
  {
    route: '/topology',
    label: 'Topology',
    section: 'Developer',
    order: 44,
    ...page(() => import('./topology/topology.tsx')),
  },
  {
    route: '/tasks',
    label: 'Tasks',
    section: 'Developer',
    order: 45,
    ...page(() => import('./tasks/tasks.tsx')),
  },
  {
    route: '/namespaces',
    label: 'Namespaces',
    section: 'Admin',
    order: 60,
    ...page(() => import('./namespaces/namespaces.tsx')),
  },
  {
    route: '/forwards',
    label: 'Forwards',
    section: 'Admin',
    order: 70,
    ...page(() => import('./forwards/forwards.tsx')),
  },
  {
    route: '/services',
    label: 'Services',
    section: 'Admin',
    order: 75,
    ...page(() => import('./services/services.tsx')),
  },
  {
    route: '/evaluators',
    label: 'Evaluators',
    section: 'Admin',
    order: 80,
    right: 'read_bodies',
    ...page(() => import('./evaluators/evaluators.tsx')),
  },
  {
    route: '/replicas',
    label: 'Replicas',
    section: 'Admin',
    order: 85,
    ...page(() => import('./replicas/replicas.tsx')),
  },
  {
    route: '/access',
    label: 'Access',
    section: 'Admin',
    order: 86,
    ...page(() => import('./access/access.tsx')),
  },
  {
    route: '/sign-ins',
    label: 'Sign-ins',
    section: 'Admin',
    order: 87,
    right: 'administer',
    needsSignIn: true,
    ...page(() => import('./sign-ins/sign-ins.tsx')),
  },
  {
    route: '/plugins-admin',
    label: 'Installed Plugins',
    section: 'Admin',
    order: 90,
    ...page(() => import('./plugins/plugins.tsx')),
  },
];
