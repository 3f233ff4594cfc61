import type { Registry } from '../registry/registry.ts';
import type { TargetLogger } from '../telemetry/log.ts';

/**
 * Warns whenever a namespace `public` exists that did not before, whoever made it: the proxies let its path pass
 * without authentication (decisions 5.2). Returns how to stop.
 */
export function watchPublicNamespace(registry: Registry, log: TargetLogger): () => void {
  let known = false;
  const check = (): void => {
    const exists = registry.current.namespace('public') !== undefined;
    if (exists && !known) {
      log.warn(
        'namespace public: authenticating proxies let /public/* pass, so it is open to everybody who reaches them',
      );
    }
    known = exists;
  };
  check();
  return registry.onChange(check);
}
