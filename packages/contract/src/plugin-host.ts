/**
 * Types for plugins of the web console: `import type { PluginHost } from '@sluice/contract/plugin-host'`. The module of a plugin
 * exports `activate(host)` and, optionally, `deactivate()`; see docs/plugins.md.
 */

/** Something that can be undone, such as a menu entry. */
export interface Disposable {
  dispose(): void;
}

/** A menu entry. */
export interface NavigationItem {
  readonly id: string;
  readonly label: string;
  /** Hash route without `#`, such as `/greetings`. Routes of the console cannot be used. */
  readonly route: string;
  /** Title of the section (default: `Extensions`). */
  readonly section?: string;
  /** Position in the section, ascending. */
  readonly order?: number;
  /** Reserved. */
  readonly icon?: string;
}

/** `HTMLElement`, in projects that compile with the types of browsers. */
export type PluginContainer = typeof globalThis extends { HTMLElement: { prototype: infer Element } }
  ? Element
  : unknown;

/** A page. */
export interface PluginPage {
  /** Hash route without `#`. Routes of the console cannot be used. */
  readonly route: string;
  /** Fills the container, which is empty. `dispose` of the result is called when the page is left. */
  mount(container: PluginContainer): Disposable | undefined;
}

/** An on-screen message. */
export interface Notification {
  readonly title?: string;
  readonly text: string;
  readonly kind?: 'info' | 'success' | 'warning' | 'error';
}

/** Error of a call to a service of the plugin. */
export interface PluginHttpError extends Error {
  /** HTTP status; undefined without a response. */
  readonly status: number | undefined;
}

/** What the console offers to a plugin. Members that its `permissions` do not list throw. */
export interface PluginHost {
  /** Version of this interface. */
  readonly version: string;
  readonly navigation: { add(item: NavigationItem): Disposable };
  readonly pages: { register(page: PluginPage): Disposable };
  /** Calls to services of the plugin. Resolve with the parsed JSON, else the text; reject with {@link PluginHttpError}. */
  readonly http: {
    get(service: string, path: string): Promise<unknown>;
    delete(service: string, path: string): Promise<unknown>;
    post(service: string, path: string, body?: unknown): Promise<unknown>;
    put(service: string, path: string, body?: unknown): Promise<unknown>;
  };
  readonly notifications: { show(notification: Notification): void };
}

/** The module that a manifest's `entrypoint` names. */
export interface PluginModule {
  activate(host: PluginHost): Promise<void> | undefined;
  deactivate?(): void;
}
