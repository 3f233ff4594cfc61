import type { Blocked } from '../access/stored-blocks.ts';
import { type QuotaOwner, quotaOwner } from '../http/quota.ts';
import { blockedForward } from '../identity/blocks.ts';
import { AUTHENTICATED_KINDS, withKey } from '../identity/principal.ts';
import { isOpen } from '../upstreams/mcp/tasks/task-record.ts';
import type { WithCalls } from './call-parts.ts';

/** Ends from now on what is open when a principal or a forward is blocked, in slices. */
export function endBlocked(parts: WithCalls): void {
  const { blocks, tasks } = parts;
  // Those that a process has not come to.
  tasks.discardWhere((record) => {
    const isBlocked = blocks.isBlocked(record.principal) || blocks.forwards.has(record.forward ?? '');
    return isBlocked && isOpen(record);
  });
  parts.storedBlocks.onBlocked((blocked) => {
    const forward = blockedForward(blocked.id);
    return forward === undefined ? endPrincipal(parts, blocked) : endForward(parts, { ...blocked, forward });
  });
}

async function endPrincipal(parts: WithCalls, { id, isForeign }: Blocked): Promise<void> {
  const { access, suspendedCalls, sessionBindings, activeSessions, events, tasks, sessionStore } = parts;
  const names = new Set(AUTHENTICATED_KINDS.map((kind) => quotaOwner('', withKey({ kind, id }), undefined).name));
  const isOwner = ({ name }: QuotaOwner) => names.has(name);
  await access.slicer.run(suspendedCalls.expireHidden());
  await access.slicer.run(activeSessions.endWhere(isOwner));
  await access.slicer.run(events.dropWhere(isOwner));
  sessionBindings.endHidden();
  // Replicas share these records.
  if (isForeign) return;
  tasks.discardWhere((record) => record.principal.id === id && isOpen(record));
  // Without the database, they end when they expire.
  await sessionStore.endWhere(isOwner).catch(() => undefined);
}

/** What is hidden has ended with the change of the registry. */
async function endForward(
  { tasks }: WithCalls,
  { forward, isForeign }: Blocked & { readonly forward: string },
): Promise<void> {
  if (!isForeign) tasks.discardWhere((record) => record.forward === forward && isOpen(record));
}
