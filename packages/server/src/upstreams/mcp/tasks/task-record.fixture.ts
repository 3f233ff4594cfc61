import { ANONYMOUS, toStored } from '../../../identity/principal.ts';
import type { UpstreamRecord } from './task-record.ts';

/** A working core task of an anonymous legacy client. */
export function record(id: string, more: Partial<UpstreamRecord> = {}): UpstreamRecord {
  return {
    id,
    namespace: 'default',
    principal: toStored(ANONYMOUS),
    holder: { namespace: 'default', name: 'address:127.0.0.1' },
    address: 'http://upstream/mcp',
    upstreamId: `upstream-${id}`,
    kind: 'core',
    clientEra: 'legacy',
    inputRequests: [],
    states: [],
    session: { id: 's', protocolVersion: '2025-11-25' },
    tool: { key: 'tool' },
    status: 'working',
    createdAt: '2026-01-01T00:00:00Z',
    lastUpdatedAt: '2026-01-01T00:00:00Z',
    ttlMs: 60_000,
    created: 1,
    expires: 2,
    ...more,
  };
}
