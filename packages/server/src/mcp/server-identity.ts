import { memberText } from '@sluice/protocol/json/text';
import { META_SERVER_INFO } from '@sluice/protocol/mcp/constants';
import type { Implementation } from '@sluice/protocol/mcp/message';
import type { Forward } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import type { Snapshot } from '../registry/snapshot.ts';

/** Longer descriptions of upstreams, which may contain images, are not passed on: every list contains them. */
const MAX_CHARACTERS = 16 * 1024;

/** Server info of an upstream. */
interface UpstreamInfo {
  /** Exact JSON. */
  readonly json: string;
  /** What clients tell servers apart by: their name and version. */
  readonly key: string;
}

/**
 * Server info of namespaces. Clients store lists by the name and version of their server, so that no two namespaces may have
 * the same: it is that of the upstream where a namespace has one forward only, else our own with the name of the namespace.
 * Two namespaces with the same upstream have our own too.
 */
export class ServerIdentities {
  readonly #registry: Pick<Registry, 'current'>;
  readonly #own: Implementation;
  /** Scanned once per forward: an upstream's description may be of any size. */
  readonly #scanned = new WeakMap<Forward, UpstreamInfo | undefined>();
  #snapshot: Snapshot | undefined = undefined;
  /** JSON of the namespaces with the server info of their upstream. */
  #upstreams: ReadonlyMap<string, string> = new Map();

  constructor(registry: Pick<Registry, 'current'>, own: Implementation) {
    this.#registry = registry;
    this.#own = own;
  }

  /** Server info of a namespace, as JSON text. */
  of(namespace: string): string {
    const { current } = this.#registry;
    if (current !== this.#snapshot) {
      this.#upstreams = this.#find(current);
      this.#snapshot = current;
    }
    return this.#upstreams.get(namespace) ?? JSON.stringify({ ...this.#own, name: `${this.#own.name}/${namespace}` });
  }

  #find({ forwards }: Snapshot): Map<string, string> {
    const sole = new Map<string, Forward | undefined>();
    for (const forward of forwards.values()) {
      sole.set(forward.namespace, sole.has(forward.namespace) ? undefined : forward);
    }
    const found = new Map<string, string>();
    const namespaces = new Map<string, string>();
    const shared = new Set<string>();
    for (const [namespace, forward] of sole) {
      const info = forward && this.#scanned.getOrInsertComputed(forward, infoOf);
      if (!info) continue;
      const other = namespaces.get(info.key);
      if (other !== undefined) shared.add(other).add(namespace);
      namespaces.set(info.key, namespace);
      found.set(namespace, info.json);
    }
    for (const namespace of shared) found.delete(namespace);
    return found;
  }
}

/** Undefined before the first discovery, and for a description without the members that clients require. */
function infoOf({ catalogs }: Forward): UpstreamInfo | undefined {
  for (const { identity } of catalogs) {
    const json =
      memberText(identity, 'serverInfo') ?? memberText(memberText(identity, '_meta') ?? '', META_SERVER_INFO);
    if (json === undefined || json.length > MAX_CHARACTERS || !json.startsWith('{')) continue;
    const { name, version }: Partial<Record<string, unknown>> = JSON.parse(json);
    if (typeof name === 'string' && typeof version === 'string') return { json, key: JSON.stringify([name, version]) };
  }
  return undefined;
}
