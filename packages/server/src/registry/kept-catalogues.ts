import type { FoundCatalogue, FoundItem } from './catalogues.ts';
import type { Draft } from './draft.ts';
import { type Entry, type Forward, isTemplate, type Kind, type KnownCatalogue } from './entries.ts';

/**
 * What an earlier discovery found in these eras, put together from the forward's entries: for an era that cannot be
 * asked at the moment, so that what it offered stays beside what the other one offers now (mcp 4). Items stand in the order
 * in which clients see them.
 */
export function keptCatalogues(
  draft: Draft,
  forward: Forward,
  eras: ReadonlySet<KnownCatalogue['era']>,
): FoundCatalogue[] {
  const kept = forward.catalogues.filter(({ era }) => eras.has(era));
  if (kept.length === 0) return [];
  const originals = draft.entriesOf(forward.name).filter(({ discovered }) => !discovered?.copied);
  const entries = originals.sort((a, b) => a.position - b.position);
  return kept.map((catalogue) => {
    const items = (kind: Kind, template = false): FoundItem[] =>
      entries
        .filter((entry) => entry.kind === kind && isTemplate(entry) === template)
        .flatMap((entry) => itemOf(entry, catalogue.key));
    return {
      ...catalogue,
      tools: items('tool'),
      resources: items('resource'),
      templates: items('resource', true),
      prompts: items('prompt'),
    };
  });
}

/** The upstream's object as this catalogue lists it; nothing when it does not. */
function itemOf({ discovered }: Entry, catalogue: string): FoundItem[] {
  const offer = discovered?.offers.find(({ catalogues }) => catalogues?.includes(catalogue) ?? true);
  return discovered && offer ? [{ key: discovered.upstreamKey, json: offer.json }] : [];
}
