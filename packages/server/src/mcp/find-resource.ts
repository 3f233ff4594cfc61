import { type Entry, isTemplate } from '../registry/entries.ts';
import type { Shelf } from '../registry/shelf.ts';
import { matchTemplate } from './uri-template.ts';

/** The entry that serves a uri: the uri exactly, then the templates in order of registration (decisions 4.7). */
export function findResource(shelf: Shelf, uri: string): Entry | undefined {
  const exact = shelf.get(uri);
  if (exact && !isTemplate(exact)) return exact;
  return shelf.templates.find((template) => matchTemplate(template.key, uri));
}
