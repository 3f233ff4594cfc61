import { memberText } from '@sluice/protocol/json/text';
import type { Era } from '@sluice/protocol/mcp/constants';
import { TASKS_EXTENSION } from '@sluice/protocol/mcp/methods';
import type { Entry, KnownCatalog } from '../../../registry/entries.ts';
import type { Upstream } from '../upstream.ts';

/** Finds upstreams and tools that create tasks, for clients that do not support them. */
export class TaskSupport {
  /** Whether tasks are polled on behalf of clients that do not support them. */
  readonly isEnabled: boolean;
  /** Entries are immutable. */
  readonly #requiring = new WeakMap<Entry, boolean>();

  constructor(isEnabled: boolean) {
    this.isEnabled = isEnabled;
  }

  /** True if the tasks extension is to be declared to an upstream for a client that does not support it. */
  isDeclaredTo({ taskEras }: Upstream): boolean {
    return this.isEnabled && taskEras.has('modern');
  }

  /** True if a tool of a legacy upstream can only be called as a task (2025-11-25, "Tool-Level Negotiation"). */
  requiresTask(tool: Entry, { taskEras }: Upstream): boolean {
    return taskEras.has('legacy') && this.#requiring.getOrInsertComputed(tool, requiresTask);
  }
}

function requiresTask({ discovered }: Entry): boolean {
  const variants = discovered?.variants ?? [];
  return variants.some(({ json, catalogs }) => {
    if (!json.includes('taskSupport') || catalogs?.every((key) => !key.startsWith('legacy:'))) return false;
    return memberText(memberText(json, 'execution') ?? '', 'taskSupport') === '"required"';
  });
}

/** Returns the eras in which an upstream with these catalogs declares tasks: core tasks, or the extension. */
export function taskErasOf(catalogs: readonly KnownCatalog[]): ReadonlySet<Era> {
  return new Set(
    catalogs
      .filter(({ identity }) => identity.includes('tasks'))
      .filter(declaresTasks)
      .map(({ era }) => era),
  );
}

function declaresTasks({ era, identity }: KnownCatalog): boolean {
  const capabilities = memberText(identity, 'capabilities') ?? '{}';
  const declared =
    era === 'legacy'
      ? memberText(capabilities, 'tasks')
      : memberText(memberText(capabilities, 'extensions') ?? '{}', TASKS_EXTENSION);
  return declared?.startsWith('{') === true;
}
