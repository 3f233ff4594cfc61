import { unwrap } from '@sluice/contract/client';
import { useCallback } from 'react';
import { countLabel, ENTRY_KINDS } from '../../api/entries.ts';
import { useChange } from '../../api/queries.ts';
import { useToasts } from '../../ui/toasts.tsx';

/** Everything that a forward changes. */
export const AFFECTED = ['forwards', 'namespaces', 'tools', 'resources', 'prompts'] as const;

/** Returns a function that repeats the discovery of a forward and shows its outcome. */
export function useRefreshForward(): (name: string) => void {
  const toasts = useToasts();
  const refresh = useChange({
    changes: AFFECTED,
    run: async (client, name: string) => {
      const call = client.POST('/api/v1/forwards/{name}/refreshes', { params: { path: { name } } });
      const { tools_discovered, resources_discovered, prompts_discovered } = await unwrap(call);
      const counts = { tools: tools_discovered, resources: resources_discovered, prompts: prompts_discovered };
      const text = ENTRY_KINDS.map((kind) => countLabel(counts[kind], kind)).join(', ');
      toasts.show({ kind: 'success', title: `${name} refreshed`, text });
    },
  });
  return useCallback(
    (name) => void refresh(name).catch((error: unknown) => toasts.fail(`${name} was not refreshed`, error)),
    [refresh, toasts],
  );
}
