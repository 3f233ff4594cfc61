import type { Draft } from '../draft.ts';
import { type Entry, sameRecord } from '../entries.ts';
import type { Namespace } from '../names.ts';

/** A tool, as it was found, and where it is to be offered too. */
export interface ToolCopy {
  readonly tool: Entry;
  readonly targetNamespace: Namespace;
}

/**
 * What became of a copy: it was made; the target namespace has a tool of that name, which stays as it is; or the tool is
 * no longer where it was found.
 */
export type CopyOutcome = 'copied' | 'held' | 'gone';

/**
 * Copies tools into namespaces, one after the other, and says what became of each (decisions 2.11,
 * `copy-tool-to-namespace`). The sources stay; a target namespace that is missing is created. What is copied is the tool
 * as it is now, under its name, with labels and what an operator changed on it; in lists it stands behind all that was
 * registered before.
 *
 * A copy of a discovered tool is its forward's: discovery renews it and removes it once the upstream does not offer the
 * tool any more, and it goes with the forward. An operator may change it like any discovered entry. One that an operator
 * removed stays away until it is copied again, and so does one that the upstream has taken back for a while: discovery
 * makes no copies. A copy of a hand-made tool is a hand-made tool of its own. Where the forward comes to offer a tool
 * under the key of a copy, its own copies included, the first registered keeps the key as ever (decisions 2.2).
 */
export function copyTools(draft: Draft, copies: readonly ToolCopy[]): CopyOutcome[] {
  return copies.map((copy) => copyTool(draft, copy));
}

/** How much there is to copy of a tool, in bytes of JSON: the store takes two to three times that for each copy. */
export function definitionBytes({ discovered, served, members, labels }: Entry): number {
  const own = JSON.stringify([members, labels, discovered?.overrides]);
  const definitions = (discovered?.offers ?? served).map(({ json }) => json);
  return [own, ...definitions].reduce((bytes, text) => bytes + Buffer.byteLength(text), 0);
}

function copyTool(draft: Draft, { tool, targetNamespace }: ToolCopy): CopyOutcome {
  const source = draft.get('tool', tool.namespace, tool.key);
  if (!source || !sameRecord(source, tool)) return 'gone';
  if (draft.get('tool', targetNamespace, source.key)) return 'held';
  const { discovered } = source;
  draft.put({
    ...source,
    namespace: targetNamespace,
    source: draft.nextSource(),
    discovered: discovered && { ...discovered, copied: true },
  });
  return 'copied';
}
