import { PLUGIN_HOST_VERSION } from '@sluice/contract';
import type { NavigationItem, PluginModule, PluginPage } from '@sluice/contract/plugin-host';
import type { PluginManifest } from '../api/queries.ts';
import { loadModule } from '../ui/load-module.ts';
import type { Toasts } from '../ui/toasts.tsx';
import { satisfies } from './host-version.ts';
import { createPluginHost } from './plugin-host.ts';

/** A plugin and what became of it. */
export interface InstalledPlugin {
  readonly manifest: PluginManifest;
  readonly state: 'loading' | 'active' | 'skipped';
  /** Why it was skipped. */
  readonly reason?: string;
}

/** A menu entry or page of a plugin. */
export interface Registered<Item> {
  readonly plugin: PluginManifest;
  readonly item: Item;
}

/** What is registered at one moment. */
export interface PluginSnapshot {
  readonly plugins: readonly InstalledPlugin[];
  readonly navigation: readonly Registered<NavigationItem>[];
  readonly pages: readonly Registered<PluginPage>[];
}

/** Loads plugins and keeps what they register. */
export class PluginRegistry {
  snapshot: PluginSnapshot = { plugins: [], navigation: [], pages: [] };
  readonly #base: string;
  readonly #reserved: ReadonlySet<string>;
  readonly #listeners = new Set<() => void>();
  #isLoaded = false;

  /** `base`: URL of the management listener; `reserved`: routes of the console. */
  constructor(base: string, reserved: Iterable<string>) {
    this.#base = base;
    this.#reserved = new Set(reserved);
  }

  /** Calls the listener after each change until the returned function is called. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Loads these plugins once, one after the other; a failing one is skipped. */
  async load(manifests: readonly PluginManifest[], toasts: Toasts): Promise<void> {
    if (this.#isLoaded) return;
    this.#isLoaded = true;
    this.#change({ plugins: manifests.map((manifest) => ({ manifest, state: 'loading' })) });
    for (const manifest of manifests) {
      try {
        await this.#activate(manifest, toasts);
        this.#setState(manifest, { manifest, state: 'active' });
      } catch (error) {
        console.warn(`plugin ${manifest.id} skipped`, error);
        const reason = error instanceof Error ? error.message : String(error);
        this.#setState(manifest, { manifest, state: 'skipped', reason });
        this.#remove(({ plugin }) => plugin.id === manifest.id);
        toasts.show({ kind: 'warning', title: `Plugin ${manifest.name} was skipped`, text: reason });
      }
    }
  }

  /** Adds a menu entry or a page; the result removes it. Throws for a route of the console or of another plugin. */
  register<Kind extends 'navigation' | 'pages'>(
    kind: Kind,
    plugin: PluginManifest,
    item: Kind extends 'pages' ? PluginPage : NavigationItem,
  ): { dispose(): void } {
    const { route } = item;
    if (!/^\/[\w/-]+$/.test(route)) throw new Error(`invalid route "${route}": expected a path such as /greetings`);
    if (this.#reserved.has(route)) throw new Error(`the route ${route} belongs to the console`);
    const others = this.snapshot[kind].filter((other) => other.item.route === route);
    if (kind === 'pages' && others.length > 0) throw new Error(`the route ${route} is already registered`);
    const registered = { plugin, item };
    this.#change({ [kind]: [...this.snapshot[kind], registered] });
    return { dispose: () => this.#remove((other) => other === registered) };
  }

  async #activate(manifest: PluginManifest, toasts: Toasts): Promise<void> {
    const { id, entrypoint, styles = [], requires } = manifest;
    const range = requires?.hostApi;
    if (range !== undefined && !satisfies(PLUGIN_HOST_VERSION, range)) {
      throw new Error(`it needs version ${range} of the host API; this console has ${PLUGIN_HOST_VERSION}`);
    }
    const folder = `${this.#base}/plugins/${encodeURIComponent(id)}`;
    const module = await loadModule<unknown>(async () => {
      await Promise.all(styles.map((style) => loadStyle(`${folder}/${style}`)));
      return import(/* @vite-ignore */ `${folder}/${entrypoint}`);
    });
    if (!isPluginModule(module)) throw new Error(`${entrypoint} does not export a function activate`);
    await module.activate(createPluginHost(manifest, this, toasts, this.#base));
  }

  #setState({ id }: PluginManifest, plugin: InstalledPlugin): void {
    this.#change({ plugins: this.snapshot.plugins.map((each) => (each.manifest.id === id ? plugin : each)) });
  }

  #remove(isRemoved: (registered: Registered<object>) => boolean): void {
    const { navigation, pages } = this.snapshot;
    this.#change({
      navigation: navigation.filter((each) => !isRemoved(each)),
      pages: pages.filter((each) => !isRemoved(each)),
    });
  }

  #change(changed: Partial<PluginSnapshot>): void {
    this.snapshot = { ...this.snapshot, ...changed };
    for (const listener of this.#listeners) listener();
  }
}

function isPluginModule(module: unknown): module is PluginModule {
  return typeof module === 'object' && module !== null && 'activate' in module && typeof module.activate === 'function';
}

function loadStyle(href: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const link = Object.assign(document.createElement('link'), { rel: 'stylesheet', href });
  link.onload = () => resolve();
  link.onerror = () => {
    link.remove();
    reject(new Error(`the stylesheet ${href} could not be loaded`));
  };
  document.head.append(link);
  return promise;
}
