import { type Client, type components, unwrap } from '@sluice/contract/client';
import { useCallback } from 'react';
import { type Evaluator, useChange } from '../../api/queries.ts';
import { useToasts } from '../../ui/toasts.tsx';

type EvaluatorWarning = components['schemas']['EvaluatorWarning'];

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
