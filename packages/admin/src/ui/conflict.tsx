import { InlineNotification } from '@carbon/react';
import { useState } from 'react';
import { Comparison } from './comparison.tsx';

/** Somebody else has changed the object since the form was opened. */
export class ConflictError extends Error {
  override readonly name: string = 'ConflictError';

  constructor(cause?: unknown) {
    super('It was changed in the meantime. Compare the changes above and save again.', { cause });
  }
}

/** An object when its form was opened, and as it is now. */
export interface Conflict {
  readonly before: object;
  readonly current: object;
}

/** Changes of others while a form is open. */
interface Conflicts {
  /** What others have changed; undefined until it matters. */
  readonly conflict: Conflict | undefined;
  /**
   * Returns what to save: the input, and what others have changed beside it. Rejects with ConflictError if there are changes that
   * were not shown yet.
   */
  readonly resolve: <Body extends object>(typed: Body) => Promise<Body>;
}

/** Compares the object that a form changes with what `read` returns before it is saved. A new object has no conflicts. */
export function useConflicts(object: object | undefined, read: () => Promise<object> | object): Conflicts {
  const [before] = useState(object);
  const [current, setCurrent] = useState<object>();
  return {
    conflict: before && current && { before, current },
    async resolve(typed) {
      if (!before) return typed;
      const known = current ?? before;
      const now = await read();
      if (membersOf(now, known).some((name) => !isEqual(memberOf(now, name), memberOf(known, name)))) {
        setCurrent(now);
        throw new ConflictError();
      }
      const untouched = membersOf(now, before).filter((name) => isEqual(memberOf(typed, name), memberOf(before, name)));
      return { ...typed, ...Object.fromEntries<unknown>(untouched.map((name) => [name, memberOf(now, name)])) };
    },
  };
}

interface ConflictViewProps extends Conflict {
  /** "forward" */
  readonly subject: string;
  /** What is typed, if it is valid. */
  readonly typed: object | undefined;
  /** Members to compare; by default all. */
  readonly members?: readonly string[];
}

/** What somebody else has changed while the form was open, and what saving it does to that. */
export function ConflictView({ subject, before, current, typed, members }: ConflictViewProps) {
  const compared = (members ?? membersOf(before, current))
    .filter((name) => !isEqual(memberOf(before, name), memberOf(current, name)))
    .map((name) => {
      const isTyped = typed !== undefined && !isEqual(memberOf(typed, name), memberOf(before, name));
      const [old, now] = [memberOf(before, name), memberOf(current, name)];
      return { name, values: [old, now, isTyped ? memberOf(typed, name) : now], isChanged: isTyped };
    });
  return (
    <section aria-label="Changes by others">
      <InlineNotification
        kind="warning"
        lowContrast
        hideCloseButton
        title={`Somebody else has changed this ${subject}`}
        subtitle="What you have typed is kept. If you save it, only what you have changed is applied."
      />
      <Comparison columns={['When you opened it', 'Now', 'After saving']} members={compared} />
    </section>
  );
}

/** Whether two values of a member are the same; a missing one is an empty one. */
export function isEqual(one: unknown, other: unknown): boolean {
  return JSON.stringify(one ?? {}) === JSON.stringify(other ?? {});
}

function membersOf(one: object, other: object): string[] {
  return Object.keys({ ...one, ...other });
}

function memberOf(object: object, name: string): unknown {
  return Reflect.get(object, name);
}
