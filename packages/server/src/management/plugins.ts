import { readdir, readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { type PluginManifest, pluginManifest, validate } from '@sluice/contract';
import { parseLossless } from '@sluice/protocol/json/parse';
import type { UpstreamTransport } from '../http/client/client.ts';
import { Egress } from '../http/client/egress.ts';
import { ConfigError } from '../http/settings.ts';
import type { TargetLogger } from '../telemetry/log.ts';

/** URLs of the services of plugins in the bootstrap file, by plugin and service. */
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
  /** Connections to services. */
  readonly egress?: Egress;
}

const MANIFEST = 'plugin.json';
/** Milliseconds to the first byte of a response. */
const FIRST_BYTE_MS = 30_000;

/** The plugins of the web console, read once at the start, and the connections to their services. */
export class Plugins {
  readonly list: readonly Plugin[];
  readonly #byId: ReadonlyMap<string, Plugin>;
  readonly #targets: PluginTargets;
  readonly #egress: Egress;
  readonly #transports = new Map<string, UpstreamTransport>();

  private constructor(list: readonly Plugin[], { targets, egress = new Egress() }: PluginsOptions) {
    this.list = list;
    this.#byId = new Map(list.map((plugin) => [plugin.manifest.id, plugin]));
    this.#targets = targets;
    this.#egress = egress;
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
  transport({ origin }: URL): UpstreamTransport {
    const options = { firstByteTimeoutMs: FIRST_BYTE_MS, redirects: 'pass', codings: 'pass' } as const;
    return this.#transports.getOrInsertComputed(origin, () => this.#egress.open(origin, options));
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
