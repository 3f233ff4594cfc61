import type { EntrySource, ViewEntry } from '@sluice/contract';
import { byOrder, type Entry, isEnabled, isTemplate, KINDS, type KnownCatalog } from '../registry/entries.ts';
import { type CatalogView, variantFor } from '../registry/list.ts';
import type { NamespaceState } from '../registry/snapshot.ts';
import { loggableUri } from '../telemetry/redaction.ts';
import { LIST_METHODS } from './client-profile.ts';

/** An entry in a {@link NamespaceView}. */
export interface ViewedEntry {
  readonly entry: Entry;
  /** The entries with its key; the first one owns it. */
  readonly candidates: readonly Entry[];
}

/**
 * All entries of a namespace as the clients of one kind see them, also those that are not offered to them, with the source of
 * each. Evaluators, which may filter a list for each request, are left out.
 */
export class NamespaceView {
  /** By kind, in the order of lists. */
  readonly entries: readonly ViewedEntry[];
  readonly #view: CatalogView;
  readonly #blocked: ReadonlySet<string> | undefined;
  readonly #catalogs = new Map<string, KnownCatalog | undefined>();

  constructor({ indexes, hidden }: NamespaceState, view: CatalogView) {
    this.#view = view;
    this.#blocked = hidden;
    this.entries = KINDS.map((kind) => indexes[kind]).flatMap((index) =>
      [...index.owners, ...index.shadowed]
        .sort(byOrder)
        .map((entry) => ({ entry, candidates: index.candidates(entry.key) })),
    );
  }

  /** JSON text of an entry in the form of the management API. */
  serialize({ entry, candidates }: ViewedEntry): string {
    const { name, key, discovered } = entry;
    const [owner] = candidates;
    const variant = variantFor(entry, discovered && this.#catalogOf(discovered.forward));
    const reason = this.#reason(entry, owner, variant !== undefined);
    const described: ViewEntry = {
      kind: isTemplate(entry) ? 'resource_template' : entry.kind,
      name,
      key,
      offered: reason === undefined,
      ...(reason !== undefined && { reason }),
      source: this.#sourceOf(entry),
      overrides: Object.keys(discovered?.overrides ?? {}),
      ...(owner === entry &&
        candidates.length > 1 && { shadows: candidates.slice(1).map((other) => this.#sourceOf(other)) }),
      ...(owner && owner !== entry && { shadowedBy: this.#sourceOf(owner) }),
    };
    const text = JSON.stringify(described);
    if (reason !== undefined || !variant) return text;
    const method = isTemplate(entry) ? 'resources/templates/list' : LIST_METHODS[entry.kind][0];
    // As text: the object is sent to clients as it is.
    return `${text.slice(0, -1)},"definition":${this.#view.item(method, variant.json)}}`;
  }

  #reason(entry: Entry, owner: Entry | undefined, isListed: boolean): ViewEntry['reason'] {
    if (owner !== entry) return 'shadowed';
    if (!isEnabled(entry)) return 'disabled';
    if (entry.discovered && this.#blocked?.has(entry.discovered.forward)) return 'blocked';
    return isListed ? undefined : 'other_clients';
  }

  #sourceOf({ discovered, members }: Entry): EntrySource {
    if (!discovered) {
      const { type, toolType = type, uri } = members;
      return {
        kind: 'manual',
        ...(typeof toolType === 'string' && { type: toolType }),
        ...(typeof uri === 'string' && { uri: loggableUri(uri) }),
      };
    }
    const { forward, upstreamKey, copied, moved, renamed } = discovered;
    const era = this.#catalogOf(forward)?.era;
    return {
      kind: 'forward',
      forward,
      upstreamKey,
      ...(era && { era }),
      ...(copied && { copied }),
      ...(moved && { moved }),
      ...(renamed && { renamed }),
    };
  }

  #catalogOf(forward: string): KnownCatalog | undefined {
    return this.#catalogs.getOrInsertComputed(forward, (name) => this.#view.choose(name));
  }
}
