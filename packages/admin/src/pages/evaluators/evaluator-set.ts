import { type Client, type components, unwrap } from '@sluice/contract/client';
import type { UseQueryResult } from '@tanstack/react-query';
import { useCallback } from 'react';
import { useApiQuery, useChange } from '../../api/queries.ts';
import { useToasts } from '../../ui/toasts.tsx';

type Schemas = components['schemas'];
export type Evaluator = Schemas['Evaluator'];
export type EvaluatorRevision = Schemas['EvaluatorRevision'];
type EvaluatorWarning = Schemas['EvaluatorWarning'];

/** The evaluators of the active revision as they were submitted, skipped ones included. */
export interface EvaluatorSet {
  readonly evaluators: readonly Evaluator[];
  /** Names of those that could not be loaded. */
  readonly skipped: readonly string[];
  /** Active revision; 0 if there is none. */
  readonly revision: number;
}

/** The active set of evaluators. */
export function useEvaluatorSet(): UseQueryResult<EvaluatorSet> {
  return useApiQuery(['evaluators', 'active'], async (client, signal) => {
    const revisions = await unwrap(client.GET('/api/v1/evaluators/revisions', { signal }));
    // A request for the active one would be an error in the browser's console when there is none.
    if (!revisions.some(({ status }) => status === 'active')) return { evaluators: [], skipped: [], revision: 0 };
    const { id, evaluators, skipped } = await unwrap(client.GET('/api/v1/evaluators/revisions/active', { signal }));
    return { evaluators, skipped, revision: id };
  });
}

/** A new list of evaluators, and the revision that it changes. */
interface Replacement {
  readonly evaluators: readonly Evaluator[];
  readonly revision: number;
}

interface EvaluatorChanges {
  /** Replaces the list; rejects with the error, and with CONFLICT if another revision has become active. */
  readonly replace: (replacement: Replacement) => Promise<void>;
  /** Activates the evaluators of an earlier revision as a new one. */
  readonly activate: (id: number) => Promise<void>;
}

/** Changes of the set. Warnings of the service are shown as toasts. */
export function useEvaluatorChanges(): EvaluatorChanges {
  const toasts = useToasts();
  const showWarnings = useCallback(
    (warnings: readonly EvaluatorWarning[] = []) => {
      for (const { evaluator, message } of warnings) {
        toasts.show({ kind: 'warning', title: `Evaluator ${evaluator}`, text: message });
      }
    },
    [toasts],
  );
  const replace = useChange({
    changes: ['evaluators'],
    run: async (client: Client, { evaluators, revision }: Replacement) => {
      const body = { evaluators: [...evaluators], expected_revision: revision };
      const call = client.PUT('/api/v1/evaluators', { body });
      await unwrap(call);
      showWarnings((await call).data?.warnings);
    },
  });
  const activate = useChange({
    changes: ['evaluators'],
    run: async (client: Client, id: number) => {
      const call = client.POST('/api/v1/evaluators/revisions/{id}/activate', { params: { path: { id } } });
      await unwrap(call);
      showWarnings((await call).data?.warnings);
    },
  });
  return { replace, activate };
}
