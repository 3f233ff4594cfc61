import { comparableUri } from './comparable-uri.ts';
import { DisabledUris } from './disabled-uris.ts';
import { type Forward, isEnabled } from './entries.ts';
import type { Exposure } from './exposure.ts';
import type { EntryIndex } from './index.ts';

/**
 * Which uris of a forward clients may use. A resource that is in no list can still be requested: by a template, by a link
 * or because its forward is the only one with resources. So each uri is checked where a request leaves, in every form in
 * which an upstream may read it (decisions 10.1).
 */
export class ResourceAccess {
  readonly #forward: string;
  readonly #exposure: Exposure;
  readonly #indexes: readonly EntryIndex[];
  readonly #disabled: readonly DisabledUris[];

  /** `indexes`: the resources of all namespaces, since an operator can move an entry to any. */
  constructor(forward: Forward, exposure: Exposure, indexes: readonly EntryIndex[]) {
    this.#forward = forward.name;
    this.#exposure = exposure;
    this.#indexes = indexes;
    const orphans = (forward.orphanedOverrides ?? []).filter((entry) => entry.kind === 'resource' && !isEnabled(entry));
    const discovered = indexes.flatMap((index) => index.disabledUris.get(forward.name) ?? []);
    this.#disabled = orphans.length > 0 ? [...discovered, new DisabledUris(orphans)] : discovered;
  }

  /** Whether all forms of the uri are exposed and not disabled. */
  allows(uri: string): boolean {
    const disabled = this.#disabled;
    const exposesAll = this.#exposure.exposesAll('resource');
    if (disabled.length === 0 && exposesAll) return true;
    const comparable = comparableUri(uri);
    if (!comparable) return false;
    if (!exposesAll && !this.#exposure.exposesUri(comparable)) return false;
    if (disabled.some((uris) => uris.has(comparable))) return false;
    const isDenied = disabled.some((uris) => !uris.isComplete || uris.matchesTemplate(comparable));
    return !isDenied || this.#isListed(uri);
  }

  /** A disabled template does not hide resources that the upstream lists by themselves. */
  #isListed(uri: string): boolean {
    return this.#indexes.some((index) => index.get(uri)?.discovered?.forward === this.#forward);
  }
}
