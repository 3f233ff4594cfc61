import type { FilterChain } from './pipeline.ts';

/** Pages of this machine. */
const LOOPBACK = /^https?:\/\/(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/;

/**
 * Says of each `cors` filter what it allows in vain, a line each: listeners let in no foreign origin but that of
 * SERVICE_CORS_ORIGIN, whatever a filter says (mcp 6).
 */
export function refusedOrigins(chains: readonly FilterChain[], corsOrigin: string | undefined): string[] {
  const passes = (origin: string) => origin === corsOrigin || LOOPBACK.test(origin);
  return chains
    .flatMap(({ filters }) => filters)
    .flatMap(({ settings, at }) => {
      if (settings.filter !== 'cors' || settings.allow_origins.includes('*')) return [];
      const { allow_origins, allow_null_origin } = settings;
      const vain = [...allow_origins, ...(allow_null_origin ? ['null'] : [])].filter((origin) => !passes(origin));
      if (vain.length === 0) return [];
      return `${at}: cors allows ${vain.join(', ')}, which the listener refuses: SERVICE_CORS_ORIGIN names the one foreign origin it lets in`;
    });
}
