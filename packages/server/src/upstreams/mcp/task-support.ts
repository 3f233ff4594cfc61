import { memberText } from '@sluice/protocol/json/text';
import type { Era } from '@sluice/protocol/mcp/constants';
import { TASKS_EXTENSION } from '@sluice/protocol/mcp/methods';
import type { Entry, KnownCatalog } from '../../registry/entries.ts';
import type { Upstream } from './upstream.ts';

/** Finds upstreams and tools that create tasks, for clients that do not support them. */
export class TaskSupport {
  /** Whether tasks are polled on behalf of clients that do not support them. */
  readonly isEnabled: boolean;
  /** Entries are immutable. */
  readonly #support = new WeakMap<Entry, ReadonlySet<string>>();

  constructor(isEnabled: boolean) {
    this.isEnabled = isEnabled;
  }

  /** True if the tasks extension is to be declared to an upstream for a client that does not support it. */
  isDeclaredTo({ eras }: Upstream): boolean {
    return this.isEnabled && eras.tasks.has('modern');
  }

  /** True if a tool of a legacy upstream can only be called as a task (2025-11-25, "Tool-Level Negotiation"). */
  requiresTask(tool: Entry, upstream: Upstream): boolean {
    return this.#supportOf(tool, upstream).has('"required"');
  }

  /** True if a tool of a legacy upstream can be called as a task. */
  allowsTask(tool: Entry, upstream: Upstream): boolean {
    return this.requiresTask(tool, upstream) || this.#supportOf(tool, upstream).has('"optional"');
  }

  #supportOf(tool: Entry, { eras }: Upstream): ReadonlySet<string> {
    return eras.tasks.has('legacy') ? this.#support.getOrInsertComputed(tool, taskSupportOf) : NO_SUPPORT;
  }
}

const NO_SUPPORT: ReadonlySet<string> = new Set();

/** The values of `execution.taskSupport` in the legacy variants of a tool, as JSON text. */
function taskSupportOf({ discovered }: Entry): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { json, catalogs } of discovered?.variants ?? []) {
    if (!json.includes('taskSupport') || catalogs?.every((key) => !key.startsWith('legacy:'))) continue;
    found.add(memberText(memberText(json, 'execution') ?? '', 'taskSupport') ?? '');
  }
  return found;
}

/** Returns the eras in which an upstream with these catalogs declares tasks: core tasks, or the extension. */
export function taskErasOf(catalogs: readonly KnownCatalog[]): ReadonlySet<Era> {
  return new Set(catalogs.filter(declaresTasks).map(({ era }) => era));
}

function declaresTasks({ era, identity }: KnownCatalog): boolean {
  if (!identity.includes('tasks')) return false;
  const capabilities = memberText(identity, 'capabilities') ?? '{}';
  const extensions = memberText(capabilities, 'extensions') ?? '{}';
  const declared = era === 'legacy' ? memberText(capabilities, 'tasks') : memberText(extensions, TASKS_EXTENSION);
  return declared?.startsWith('{') === true;
}
