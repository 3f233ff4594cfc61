import { useIsFetching } from '@tanstack/react-query';
import { useEffect } from 'react';
import { PAGES } from './pages/pages.ts';

/**
 * Loads the code of all pages, one after the other, while nothing else is loading, so that they open at once, and also while the
 * service is away. What fails is loaded again later.
 */
export function PreloadPages() {
  const isBusy = useIsFetching() > 0;
  useEffect(() => {
    if (isBusy) return undefined;
    const stopped = new AbortController();
    void preload(stopped.signal);
    return () => stopped.abort();
  }, [isBusy]);
  return null;
}

/** Time between two pages in browsers that do not tell when they are idle, in milliseconds. */
const PAUSE_MS = 200;

function whenIdle(run: () => void): void {
  if ('requestIdleCallback' in globalThis) requestIdleCallback(run);
  else setTimeout(run, PAUSE_MS);
}

async function preload(signal: AbortSignal): Promise<void> {
  for (const { load } of PAGES) {
    await new Promise<void>(whenIdle);
    if (signal.aborted) return;
    try {
      await load?.();
    } catch {
      return;
    }
  }
}
