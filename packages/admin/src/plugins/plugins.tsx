import { unwrap } from '@sluice/contract/client';
import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { createContext, type ReactNode, useContext, useEffect, useState, useSyncExternalStore } from 'react';
import { useApi } from '../api/api.ts';
import type { PluginManifest } from '../api/queries.ts';
import { useToasts } from '../ui/toasts.tsx';
import { PluginRegistry, type PluginSnapshot } from './plugin-registry.ts';

const PluginContext = createContext<PluginRegistry | undefined>(undefined);

interface PluginProviderProps {
  /** Routes of the console. */
  readonly reserved: readonly string[];
  readonly children: ReactNode;
}

/** Loads the plugins once the console is there; it does not wait for them. */
export function PluginProvider({ reserved, children }: PluginProviderProps) {
  const { base } = useApi();
  const { data } = usePluginList();
  const toasts = useToasts();
  const [registry] = useState(() => new PluginRegistry(base, reserved));
  useEffect(() => {
    if (data) void registry.load(data, toasts);
  }, [data, registry, toasts]);
  return <PluginContext value={registry}>{children}</PluginContext>;
}

/** Returns the plugins and what they have registered. */
export function usePlugins(): PluginSnapshot {
  const registry = useContext(PluginContext);
  if (!registry) throw new Error('usePlugins: no PluginProvider');
  return useSyncExternalStore(registry.subscribe, () => registry.snapshot);
}

/** The plugins of the service, whether or not they could be loaded. They do not change while it runs. */
export function usePluginList(): UseQueryResult<PluginManifest[]> {
  const { client } = useApi();
  return useQuery({
    queryKey: ['plugins'],
    queryFn: ({ signal }) => unwrap(client.GET('/api/v1/plugins', { signal })),
    staleTime: Number.POSITIVE_INFINITY,
  });
}
