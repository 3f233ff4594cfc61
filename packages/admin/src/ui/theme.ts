import { useEffect, useState, useSyncExternalStore } from 'react';

export type Theme = 'light' | 'dark';

const STORED = 'sluice.theme';
const DARK = '(prefers-color-scheme: dark)';

/** The theme of the system, unless the user has chosen the other one. */
export function useTheme(): { readonly theme: Theme; readonly toggleTheme: () => void } {
  const ofSystem: Theme = useSyncExternalStore(subscribe, () => matchMedia(DARK).matches) ? 'dark' : 'light';
  const [chosen, setChosen] = useState(storedTheme);
  const theme = chosen ?? ofSystem;
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  const toggleTheme = (): void => {
    const next = theme === 'dark' ? 'light' : 'dark';
    // A choice that equals the system's follows it again.
    if (next === ofSystem) localStorage.removeItem(STORED);
    else localStorage.setItem(STORED, next);
    setChosen(next === ofSystem ? undefined : next);
  };
  return { theme, toggleTheme };
}

function storedTheme(): Theme | undefined {
  const stored = localStorage.getItem(STORED);
  return stored === 'dark' || stored === 'light' ? stored : undefined;
}

function subscribe(onChange: () => void): () => void {
  const query = matchMedia(DARK);
  query.addEventListener('change', onChange);
  return () => query.removeEventListener('change', onChange);
}
