/**
 * CORS headers of every management answer (decisions 4.1). Without SERVICE_CORS_ORIGIN answers carry `*`; foreign
 * origins are refused all the same, by the listener's guard.
 */
export function corsHeaders(corsOrigin: string | undefined): Record<string, string> {
  if (corsOrigin === undefined || corsOrigin === '*') return { 'access-control-allow-origin': '*' };
  return { 'access-control-allow-origin': corsOrigin, vary: 'Origin' };
}

/** What the answer to OPTIONS says in addition (decisions 4.1). */
export const PREFLIGHT_HEADERS: Readonly<Record<string, string>> = {
  'access-control-allow-methods': 'GET, POST, PUT, DELETE, OPTIONS',
  'access-control-allow-headers': 'Content-Type, Accept, Authorization',
};
