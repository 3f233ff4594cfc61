import { useCallback } from 'react';
import { useToasts } from './toasts.tsx';

/** A change whose result is shown as a toast. */
export interface UndoableChange {
  readonly run: () => Promise<unknown>;
  /** "Forward crm deleted" */
  readonly done: string;
  /** "Forward crm was not deleted" */
  readonly failed: string;
  /** Reverses the change; `failed` as above. */
  readonly undo?: { readonly run: () => Promise<unknown>; readonly failed: string } | false;
}

/** Returns a function that makes a change and offers to undo it. It resolves with whether the change was made. */
export function useUndoable(): (change: UndoableChange) => Promise<boolean> {
  const toasts = useToasts();
  return useCallback(
    async ({ run, done, failed, undo }) => {
      try {
        await run();
      } catch (error) {
        toasts.fail(failed, error);
        return false;
      }
      const action = undo && {
        action: {
          label: 'Undo',
          run: () => void undo.run().catch((error: unknown) => toasts.fail(undo.failed, error)),
        },
      };
      toasts.show({ kind: 'success', title: done, ...action });
      return true;
    },
    [toasts],
  );
}
