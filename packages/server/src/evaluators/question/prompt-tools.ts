import type { Shelf } from '../../registry/shelf.ts';
import type { ToolEntry } from '../actions/action-world.ts';
import { toolEntry } from '../registry-view/registry-view-texts.ts';

/** A tool as prompts name it. */
export type PromptTool = Pick<ToolEntry, 'name' | 'description'>;

/**
 * The tools of a namespace for prompts, in order of registration. They are kept with the shelf that they were read from,
 * which never changes: a namespace may have thousands, and each list that is judged asks for all of them.
 */
export class PromptTools {
  readonly #tools = new WeakMap<Shelf, readonly PromptTool[]>();

  of(shelf: Shelf): readonly PromptTool[] {
    const known = this.#tools.get(shelf);
    if (known) return known;
    const tools = shelf.entries.map(toolEntry).map(({ name, description }) => ({ name, description }));
    this.#tools.set(shelf, tools);
    return tools;
  }
}
