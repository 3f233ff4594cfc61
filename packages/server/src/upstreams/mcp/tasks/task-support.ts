import { memberText } from '@sluice/protocol/json/text';
import { TASKS_EXTENSION } from '@sluice/protocol/mcp/methods';
import type { Forward, KnownCatalog } from '../../../registry/entries.ts';

/** Finds forwards whose upstreams create tasks at their own discretion. */
export class TaskSupport {
  readonly #isEnabled: boolean;
  readonly #find: (forward: string) => Forward | undefined;
  /** Registered forwards are immutable. */
  readonly #known = new WeakMap<Forward, boolean>();

  /** `isEnabled`: whether tasks are polled on behalf of clients that do not support them. */
  constructor(isEnabled: boolean, find: (forward: string) => Forward | undefined) {
    this.#isEnabled = isEnabled;
    this.#find = find;
  }

  /** True if the tasks extension is to be declared to a forward for a client that does not support it. */
  isDeclaredTo(forward: string | undefined): boolean {
    const registered = this.#isEnabled && forward !== undefined ? this.#find(forward) : undefined;
    return registered !== undefined && this.#known.getOrInsertComputed(registered, hasExtension);
  }
}

function hasExtension({ catalogs }: Forward): boolean {
  return catalogs.some(declaresExtension);
}

function declaresExtension({ era, identity }: KnownCatalog): boolean {
  if (era !== 'modern' || !identity.includes(TASKS_EXTENSION)) return false;
  const extensions = memberText(memberText(identity, 'capabilities') ?? '{}', 'extensions') ?? '{}';
  return memberText(extensions, TASKS_EXTENSION)?.startsWith('{') === true;
}
