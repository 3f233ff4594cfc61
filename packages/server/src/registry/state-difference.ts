import type { MemberChange, StateChange, ValidationIssue } from '@sluice/contract';
import { identical } from '@sluice/protocol/json/equal';
import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import type { Draft } from './draft.ts';
import { type Entry, isEnabled, sameRecord } from './entries.ts';
import { OperationError } from './operation-error.ts';

/** A desired state cannot be applied. */
export class StateProblemsError extends OperationError {
  /** With the path of each entry, such as `tools.3`; empty for none. */
  readonly problems: readonly ValidationIssue[];

  constructor(problems: readonly [ValidationIssue, ...ValidationIssue[]]) {
    const [{ path, message }, ...others] = problems;
    const more = others.length > 0 ? ` (and ${others.length} more)` : '';
    super('UNPROCESSABLE', `invalid state: ${[path, message].filter(Boolean).join(': ')}${more}`, problems);
    this.problems = problems;
  }
}

/** The changes that a desired state makes, and what prevents them. */
export class StateDifference {
  readonly changes: StateChange[] = [];
  readonly #draft: Draft;
  readonly #problems: ValidationIssue[] = [];
  readonly #promoted = new Map<StateChange, Entry[]>();

  constructor(draft: Draft) {
    this.#draft = draft;
  }

  /** Adds a change; those whose `members` are empty only if they are deletions. */
  add(change: StateChange): void {
    this.changes.push(change);
  }

  /** Adds a reason why the state cannot be applied. `path`: the entry, such as `tools.3`; empty for none. */
  reject(path: string, message: string): void {
    this.#problems.push({ path, message });
  }

  /** Calls a check and adds the problem that it throws. */
  check(path: string, check: () => void): void {
    try {
      check();
    } catch (error) {
      if (!(error instanceof OperationError)) throw error;
      this.reject(path, error.message);
    }
  }

  /** Removes an entry because of a change. */
  remove(entry: Entry, change: StateChange): void {
    const next = this.#draft.remove(entry);
    if (next) this.promote([next], change);
  }

  /** Records entries that were shadowed and hold their keys because of a change. */
  promote(entries: readonly Entry[], change: StateChange): void {
    this.#promoted.getOrInsertComputed(change, () => []).push(...entries);
  }

  /** Throws {@link StateProblemsError} if there are problems. */
  requireApplicable(): void {
    const [first, ...others] = this.#problems;
    if (first) throw new StateProblemsError([first, ...others]);
  }

  /** Adds to changes that they make shadowed entries available, unless another entry has taken the key. Call at the end. */
  markPromoted(): void {
    for (const [change, entries] of this.#promoted) {
      const widens = entries.flatMap((entry) => {
        const { kind, namespace, key, name, discovered } = entry;
        const holder = this.#draft.get(kind, namespace, key);
        if (!holder || !sameRecord(holder, entry) || !isEnabled(holder)) return [];
        return [`makes the shadowed ${kind} ${name} of forward ${discovered?.forward} available`];
      });
      if (widens.length > 0) change.widens = [...(change.widens ?? []), ...widens];
    }
  }
}

/**
 * Returns the members that differ: first those of `to` in its order, then removed ones. Compares numbers by notation.
 */
export function diffMembers(from: JsonObject, to: JsonObject): MemberChange[] {
  const [old, next] = [new Map(Object.entries(from)), new Map(Object.entries(to))];
  const changes: MemberChange[] = [];
  for (const [member, value] of next) {
    const before = old.get(member);
    if (before === undefined) changes.push({ member, to: value });
    else if (!identical(before, value)) changes.push({ member, from: before, to: value });
  }
  for (const [member, value] of old) if (!next.has(member)) changes.push({ member, from: value });
  return changes;
}

/** Returns the members of a new entry, without empty maps. */
export function initialMembers(members: JsonObject): MemberChange[] {
  return diffMembers({}, members).filter(({ to }) => JSON.stringify(to) !== '{}');
}

/** The members that are defined. */
export function definedMembers(members: Readonly<Record<string, JsonValue | undefined>>): JsonObject {
  const entries = Object.entries(members).filter((entry): entry is [string, JsonValue] => entry[1] !== undefined);
  return Object.fromEntries(entries);
}
