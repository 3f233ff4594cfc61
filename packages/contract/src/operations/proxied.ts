/** Path prefixes of the legacy backend. */
export const PROXIED_PREFIXES: readonly string[] = [
  '/api/v1/service-catalog',
  '/api/v1/service-template',
  '/api/v1/data-store',
  '/api/v1/capabilities',
  '/api/v1/chat',
  '/api/v1/management/info',
  '/api/v1/management/statistics',
  '/api/v2/code-execution',
  '/api/v2/tool-calls',
];
