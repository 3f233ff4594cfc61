import { MatchingBudget, matchTemplate } from '@sluice/protocol/mcp/uri-template';
import { type ComparableUri, comparableUri, isPlain, normalizeOrigin } from './comparable-uri.ts';
import { type Entry, isTemplate } from './entries.ts';
import { decodeFully } from './uri-forms.ts';

/** Characters of uris with several forms that are compared. Thousands of them would take too long. */
const MAX_CHARACTERS = 65_536;

/** The disabled entries of one kind in one namespace, shadowed ones included. */
export class DisabledEntries {
  /** In no order. */
  readonly all: readonly Entry[];
  readonly #isOwner: (entry: Entry) => boolean;
  #uris: ReadonlyMap<string | undefined, DisabledUris> | undefined = undefined;
  #ownedUris: DisabledUris | undefined = undefined;

  /** `isOwner`: whether an entry owns its key. */
  constructor(entries: Iterable<Entry>, isOwner: (entry: Entry) => boolean) {
    this.all = [...entries];
    this.#isOwner = isOwner;
  }

  /** The uris of resources by forward; undefined for manual entries. */
  get uris(): ReadonlyMap<string | undefined, DisabledUris> {
    const byForward = () => Map.groupBy(this.all, ({ discovered }) => discovered?.forward);
    this.#uris ??= new Map(Array.from(byForward(), ([forward, entries]) => [forward, new DisabledUris(entries)]));
    return this.#uris;
  }

  /** The uris that resources own: nothing else is served under them. */
  get ownedUris(): DisabledUris {
    this.#ownedUris ??= new DisabledUris(this.all.filter(this.#isOwner));
    return this.#ownedUris;
  }
}

/** Uris and templates of disabled resources. */
export class DisabledUris {
  readonly #texts = new Set<string>();
  readonly #templates: string[] = [];
  #remaining = MAX_CHARACTERS;

  /** `entries`: disabled resources. */
  constructor(entries: Iterable<Entry>) {
    for (const entry of entries) {
      this.#add(entry.key);
      // A mark that waits for its entry does not know whether that is a template.
      if (isTemplate(entry) || entry.key.includes('{')) this.#templates.push(normalizeOrigin(entry.key));
    }
  }

  get isEmpty(): boolean {
    return this.#texts.size === 0;
  }

  /** False if there are too many resources with unusual uris to compare all their forms: then none is certain to be visible. */
  get isComplete(): boolean {
    return this.#remaining >= 0;
  }

  /** Whether a form of the uri is one of a disabled resource. */
  has({ texts }: ComparableUri): boolean {
    return !this.#texts.isDisjointFrom(texts);
  }

  /** Whether a disabled template matches a form of the uri, or may match one that is too complex. */
  matchesTemplate({ segmented }: ComparableUri): boolean {
    const texts = [...segmented];
    const budget = new MatchingBudget(true);
    return this.#templates.some((template) => texts.some((text) => matchTemplate(template, text, budget)));
  }

  #add(key: string): void {
    const normalized = normalizeOrigin(decodeFully(key));
    this.#texts.add(normalized);
    if (isPlain(normalized)) return;
    this.#remaining -= key.length;
    if (!this.isComplete) return;
    for (const text of comparableUri(key)?.texts ?? [key]) this.#texts.add(text);
  }
}
