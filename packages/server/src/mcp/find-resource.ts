import { matchTemplate } from '@sluice/protocol/mcp/uri-template';
import { type Entry, isTemplate } from '../registry/entries.ts';
import type { Shelf } from '../registry/shelf.ts';

/** The entry that serves a uri: the uri exactly, then the templates in order of registration (decisions 4.7). */
export function findResource(shelf: Shelf, uri: string): Entry | undefined {
  return exactResource(shelf, uri) ?? templateFor(shelf.templates, uri);
}

/**
 * Finds the entries of the same uris again and again, as {@link findResource} does. Templates are matched anew only when
 * others are there: that is what costs.
 */
export class ResourceFinder {
  #templates: readonly Entry[] = [];
  readonly #matched = new Map<string, Entry | undefined>();

  /** The entry that serves a uri; of a template perhaps an earlier state, of the same key and forward. */
  find(shelf: Shelf, uri: string): Entry | undefined {
    return exactResource(shelf, uri) ?? this.#matching(shelf.templates, uri);
  }

  #matching(templates: readonly Entry[], uri: string): Entry | undefined {
    if (templates !== this.#templates) {
      if (!sameTemplates(templates, this.#templates)) this.#matched.clear();
      this.#templates = templates;
    }
    if (!this.#matched.has(uri)) this.#matched.set(uri, templateFor(templates, uri));
    return this.#matched.get(uri);
  }
}

function exactResource(shelf: Shelf, uri: string): Entry | undefined {
  const exact = shelf.get(uri);
  return exact && !isTemplate(exact) ? exact : undefined;
}

function templateFor(templates: readonly Entry[], uri: string): Entry | undefined {
  return templates.find((template) => matchTemplate(template.key, uri));
}

function sameTemplates(some: readonly Entry[], others: readonly Entry[]): boolean {
  return some.length === others.length && some.every((template, at) => sameTemplate(template, others[at]));
}

function sameTemplate({ key, discovered }: Entry, other: Entry | undefined): boolean {
  return key === other?.key && discovered?.forward === other.discovered?.forward;
}
