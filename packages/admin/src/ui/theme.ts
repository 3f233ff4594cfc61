import { useEffect, useSyncExternalStore } from 'react';

export type Theme = 'light' | 'dark';

const STORED = 'sluice.theme';
const DARK = '(prefers-color-scheme: dark)';
/** Event of the window: the user has chosen a theme. */
const CHANGED = 'sluice-theme';

/** The theme of the system, unless the user has chosen the other one. */
export function useTheme(): Theme {
  const theme = useSyncExternalStore(subscribe, currentTheme);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  return theme;
}

/** Changes to the other theme. A choice that equals the system's follows it again. */
export function toggleTheme(): void {
  const next = currentTheme() === 'dark' ? 'light' : 'dark';
  if (next === themeOfSystem()) localStorage.removeItem(STORED);
  else localStorage.setItem(STORED, next);
  dispatchEvent(new Event(CHANGED));
}

function currentTheme(): Theme {
  const stored = localStorage.getItem(STORED);
  return stored === 'dark' || stored === 'light' ? stored : themeOfSystem();
}

function themeOfSystem(): Theme {
  return matchMedia(DARK).matches ? 'dark' : 'light';
}

function subscribe(onChange: () => void): () => void {
  const query = matchMedia(DARK);
  query.addEventListener('change', onChange);
  // Of this page, and of others.
  for (const type of [CHANGED, 'storage']) addEventListener(type, onChange);
  return () => {
    query.removeEventListener('change', onChange);
    for (const type of [CHANGED, 'storage']) removeEventListener(type, onChange);
  };
}
