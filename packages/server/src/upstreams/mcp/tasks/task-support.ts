import { memberText } from '@sluice/protocol/json/text';
import { TASKS_EXTENSION } from '@sluice/protocol/mcp/methods';
import type { Entry, Forward, KnownCatalog } from '../../../registry/entries.ts';

/** Finds forwards and tools whose upstreams create tasks, for clients that do not support them. */
export class TaskSupport {
  /** Whether tasks are polled on behalf of clients that do not support them. */
  readonly isEnabled: boolean;
  readonly #find: (forward: string) => Forward | undefined;
  /** Registered forwards are immutable. */
  readonly #known = new WeakMap<Forward, boolean>();
  readonly #requiring = new WeakMap<Entry, boolean>();

  constructor(isEnabled: boolean, find: (forward: string) => Forward | undefined) {
    this.isEnabled = isEnabled;
    this.#find = find;
  }

  /** True if the tasks extension is to be declared to a forward for a client that does not support it. */
  isDeclaredTo(forward: string | undefined): boolean {
    const registered = this.isEnabled && forward !== undefined ? this.#find(forward) : undefined;
    return registered !== undefined && this.#known.getOrInsertComputed(registered, hasExtension);
  }

  /** True if a tool of a legacy upstream can only be called as a task (2025-11-25, "Tool-Level Negotiation"). */
  requiresTask(tool: Entry): boolean {
    return tool.discovered !== undefined && this.#requiring.getOrInsertComputed(tool, requiresTask);
  }
}

function requiresTask({ discovered }: Entry): boolean {
  return (
    discovered?.variants.some(({ json, catalogs }) => {
      if (!json.includes('taskSupport') || catalogs?.every((key) => !key.startsWith('legacy:'))) return false;
      return memberText(memberText(json, 'execution') ?? '', 'taskSupport') === '"required"';
    }) === true
  );
}

function hasExtension({ catalogs }: Forward): boolean {
  return catalogs.some(declaresExtension);
}

function declaresExtension({ era, identity }: KnownCatalog): boolean {
  if (era !== 'modern' || !identity.includes(TASKS_EXTENSION)) return false;
  const extensions = memberText(memberText(identity, 'capabilities') ?? '{}', 'extensions') ?? '{}';
  return memberText(extensions, TASKS_EXTENSION)?.startsWith('{') === true;
}
