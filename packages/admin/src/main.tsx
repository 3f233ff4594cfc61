import './styles/index.scss';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { z } from 'zod';
import { ApiContext, createApi, ServiceUnreachableError } from './api/api.ts';
import { App } from './app.tsx';
import { PAGES } from './pages/pages.ts';
import { PluginProvider } from './plugins/plugins.tsx';
import { ToastProvider } from './ui/toasts.tsx';

// The content security policy forbids generated code, which zod would try.
z.config({ jitless: true });

// The scripts are in `admin/assets/`, below the path that a proxy may add.
const base = import.meta.env.DEV
  ? location.origin
  : new URL(/* @vite-ignore */ '../..', import.meta.url).href.replace(/\/$/, '');
const queries = new QueryClient({
  defaultOptions: {
    queries: {
      networkMode: 'always',
      staleTime: 2_000,
      retry: (_count, error) => error instanceof ServiceUnreachableError,
      retryDelay: (count) => Math.min(1_000 * 2 ** count, 10_000),
    },
    mutations: { networkMode: 'always' },
  },
});

const root = document.getElementById('root');
if (!root) throw new Error('the page has no element "root"');
createRoot(root).render(
  <StrictMode>
    <ApiContext value={createApi(base)}>
      <QueryClientProvider client={queries}>
        <ToastProvider>
          <PluginProvider reserved={PAGES.map(({ route }) => route)}>
            <App />
          </PluginProvider>
        </ToastProvider>
      </QueryClientProvider>
    </ApiContext>
  </StrictMode>,
);
