/** Interval of attempts while the service does not respond. */
const RETRY_MS = 2_000;

/**
 * Loads a module of the console; while the service does not respond, until it does. Rejects if the service responds, but the
 * module cannot be loaded: after an update of the service, files of the previous console are gone.
 */
export async function loadModule<Module>(load: () => Promise<Module>): Promise<Module> {
  for (;;) {
    try {
      return await load();
    } catch {
      if (await isServed()) break;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
  loadStylesAgain();
  return load();
}

/** Whether the service delivers the console. */
async function isServed(): Promise<boolean> {
  try {
    return (await fetch(location.pathname, { cache: 'no-store', redirect: 'manual' })).ok;
  } catch {
    return false;
  }
}

/** The next attempt would not request the styles of the module again. */
function loadStylesAgain(): void {
  for (const link of document.querySelectorAll<HTMLLinkElement>('link[rel="stylesheet"]'))
    if (!link.sheet) link.replaceWith(link.cloneNode());
}
