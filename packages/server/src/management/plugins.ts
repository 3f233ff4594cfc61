import { readdir, readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { type PluginManifest, pluginManifest, validate } from '@sluice/contract';
import { parseLossless } from '@sluice/protocol/json/parse';
import type { UpstreamTransport } from '../http/client/client.ts';
import { EgressProxies } from '../http/client/egress-proxies.ts';
import { createTransport } from '../http/client/pool.ts';
import type { UpstreamSockets } from '../http/client/upstream-sockets.ts';
import { ConfigError } from '../http/settings.ts';
import type { TargetLogger } from '../telemetry/log.ts';

/** URLs of the services of plugins in the bootstrap file, by plugin and service (decisions 1.3). */
export type PluginTargets = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** A plugin in a folder of its own. */
interface Plugin {
  /** Without links. */
  readonly folder: string;
  readonly manifest: PluginManifest;
  /** JSON text of the manifest, as written. */
  readonly json: string;
}

/** Options of {@link Plugins.open}. */
export interface PluginsOptions {
  /** `--plugins-path`; undefined for no plugins. */
  readonly path: string | undefined;
  readonly targets: PluginTargets;
  readonly log: TargetLogger;
  /** Sockets of all upstreams. */
  readonly sockets?: UpstreamSockets | undefined;
  /** Proxies for requests to services (default: there are none). */
  readonly proxies?: EgressProxies;
}

const MANIFEST = 'plugin.json';
/** Milliseconds to the first byte of a response (decisions 4.11). */
const FIRST_BYTE_MS = 30_000;

/** The plugins of the web console, read once at the start (decisions 2.13), and the connections to their services. */
export class Plugins {
  readonly list: readonly Plugin[];
  readonly #byId: ReadonlyMap<string, Plugin>;
  readonly #targets: PluginTargets;
  readonly #transports = new Map<string, UpstreamTransport>();

  readonly #sockets: UpstreamSockets | undefined;
  readonly #proxies: EgressProxies;

  private constructor(list: readonly Plugin[], { targets, sockets, proxies = new EgressProxies() }: PluginsOptions) {
    this.#proxies = proxies;
    this.list = list;
    this.#byId = new Map(list.map((plugin) => [plugin.manifest.id, plugin]));
    this.#targets = targets;
    this.#sockets = sockets;
  }

  /**
   * Reads the manifests. A folder with an invalid one, or with the id of an earlier plugin, is skipped with a warning.
   * Throws {@link ConfigError} if the folder of the plugins cannot be read.
   */
  static async open(options: PluginsOptions): Promise<Plugins> {
    const { path, log } = options;
    if (path === undefined) return new Plugins([], options);
    const names = await readdir(path).catch((cause: unknown) => {
      throw new ConfigError(`--plugins-path: ${path} is not a folder that can be read`, { cause });
    });
    const plugins = new Map<string, Plugin>();
    for (const name of names.toSorted()) {
      const plugin = await readPlugin(join(path, name));
      if (plugin === undefined) continue;
      if (typeof plugin === 'string') log.warn('plugin skipped', { folder: name, reason: plugin });
      else if (plugins.has(plugin.manifest.id)) {
        log.warn('plugin skipped', { folder: name, reason: `another plugin has the id ${plugin.manifest.id}` });
      } else plugins.set(plugin.manifest.id, plugin);
    }
    return new Plugins([...plugins.values()], options);
  }

  /** The plugin with this id. */
  get(id: string): Plugin | undefined {
    return this.#byId.get(id);
  }

  /** Address of a service of an installed plugin. */
  target(plugin: string, service: string): URL | undefined {
    const target = this.#byId.has(plugin) ? this.#targets.get(plugin)?.get(service) : undefined;
    return target === undefined ? undefined : new URL(target);
  }

  /** Connections to the origin of a service. */
  transport(url: URL): UpstreamTransport {
    const proxy = this.#proxies.for(url);
    const sockets = this.#sockets;
    return this.#transports.getOrInsertComputed(url.origin, () =>
      createTransport(url.origin, {
        firstByteTimeoutMs: FIRST_BYTE_MS,
        redirects: 'pass',
        codings: 'pass',
        proxy,
        sockets,
      }),
    );
  }

  async close(): Promise<void> {
    await Promise.all(this.#transports.values().map((transport) => transport.destroy()));
  }
}

/** Reads a plugin; a text says why it cannot be used. Undefined for a folder without a manifest. */
async function readPlugin(folder: string): Promise<Plugin | string | undefined> {
  const json = await readFile(join(folder, MANIFEST), 'utf8').catch(() => undefined);
  if (json === undefined) return undefined;
  try {
    const parsed = validate(pluginManifest, parseLossless(json, { uniqueKeys: true }));
    if ('value' in parsed)
      return { folder: await realpath(folder), manifest: parsed.value, json: JSON.stringify(parsed.value) };
    const [issue] = parsed.issues;
    return `${MANIFEST}: ${issue?.path} ${issue?.message}`;
  } catch (error) {
    return `${MANIFEST}: ${error instanceof Error ? error.message : String(error)}`;
  }
}
