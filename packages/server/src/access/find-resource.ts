import { decodeUnreserved, MatchingBudget, matchTemplate } from '@sluice/protocol/mcp/uri-template';
import { type Entry, isTemplate } from '../registry/entries.ts';
import type { EntryIndex } from '../registry/entry-index.ts';

/** The entry that serves a uri: the uri exactly, then the templates in order of registration. */
export function findResource(index: EntryIndex, uri: string): Entry | undefined {
  return exactResource(index, uri) ?? templateFor(index.templates, uri);
}

/**
 * Looks up entries of the same uris repeatedly, as {@link findResource} does. Templates, which are the expensive part,
 * are matched again only after they changed.
 */
export class ResourceFinder {
  #templates: readonly Entry[] = [];
  readonly #matched = new Map<string, Entry | undefined>();

  /** The entry that serves a uri; of a template perhaps an earlier state, of the same key and forward. */
  find(index: EntryIndex, uri: string): Entry | undefined {
    return exactResource(index, uri) ?? this.#matching(index.templates, uri);
  }

  #matching(templates: readonly Entry[], uri: string): Entry | undefined {
    if (templates !== this.#templates) {
      if (!areSameTemplates(templates, this.#templates)) this.#matched.clear();
      this.#templates = templates;
    }
    return this.#matched.getOrInsertComputed(uri, () => templateFor(templates, uri));
  }
}

/** The resource with this uri, which no template serves. */
export function exactResource(index: EntryIndex, uri: string): Entry | undefined {
  const exact = index.served(uri);
  return exact && !isTemplate(exact) ? exact : undefined;
}

function templateFor(templates: readonly Entry[], uri: string): Entry | undefined {
  if (templates.length === 0) return undefined;
  const decoded = decodeUnreserved(uri);
  const budget = new MatchingBudget();
  return templates.find((template) => matchTemplate(template.key, decoded, budget));
}

function areSameTemplates(some: readonly Entry[], others: readonly Entry[]): boolean {
  return some.length === others.length && some.every((template, at) => isSameTemplate(template, others[at]));
}

function isSameTemplate({ key, discovered }: Entry, other: Entry | undefined): boolean {
  return key === other?.key && discovered?.forward === other.discovered?.forward;
}
