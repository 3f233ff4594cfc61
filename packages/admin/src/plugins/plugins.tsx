import { unwrap } from '@sluice/contract/client';
import { createContext, type ReactNode, useContext, useEffect, useState, useSyncExternalStore } from 'react';
import { useApi } from '../api/api.ts';
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
  const { base, client } = useApi();
  const toasts = useToasts();
  const [registry] = useState(() => new PluginRegistry(base, reserved));
  useEffect(() => {
    unwrap(client.GET('/api/v1/plugins'))
      .then((manifests) => registry.load(manifests, toasts))
      // The page of the plugins shows the error.
      .catch(() => undefined);
  }, [client, registry, toasts]);
  return <PluginContext value={registry}>{children}</PluginContext>;
}

/** Returns the plugins and what they have registered. */
export function usePlugins(): PluginSnapshot {
  const registry = useContext(PluginContext);
  if (!registry) throw new Error('usePlugins: no PluginProvider');
  return useSyncExternalStore(registry.subscribe, () => registry.snapshot);
}
