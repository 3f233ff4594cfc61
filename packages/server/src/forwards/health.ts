import type { Era } from '@sluice/protocol/mcp/constants';
import { openLegacy } from './legacy-client.ts';
import { openModern } from './modern-client.ts';
import type { ClientOptions } from './upstream-client.ts';

/**
 * One light request that a healthy upstream answers: `server/discover` on the modern era, `ping` on the legacy one, on
 * a session of its own that is ended afterwards (decisions 4.3). An error that answers `ping` is a sign of life too.
 * Rejects with an `UpstreamError` when there was none, or when the upstream no longer speaks the era.
 */
export async function checkHealth(options: ClientOptions, era: Era): Promise<void> {
  if (era === 'modern') {
    await openModern(options);
    return;
  }
  const session = await openLegacy(options);
  try {
    await session.request('ping');
  } finally {
    void session.close();
  }
}
