import { SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import type { Blocked } from '../access/stored-blocks.ts';
import { type QuotaOwner, quotaOwner } from '../http/quota.ts';
import { blockedForward } from '../identity/blocks.ts';
import { AUTHENTICATED_KINDS, withKey } from '../identity/principal.ts';
import type { Steps } from '../registry/steps.ts';
import type { CallEnd } from '../upstreams/in-flight-calls.ts';
import { isOpen } from '../upstreams/mcp/tasks/task-record.ts';
import type { WithCalls } from './call-parts.ts';

/** How calls of blocked principals, and to blocked forwards, end. */
const BLOCKED: CallEnd = {
  error: { code: SERVER_ERROR, message: 'the call was ended: access is blocked' },
  category: 'POLICY_BLOCKED',
};

/** Ends from now on what is open when a principal or a forward is blocked, in slices. */
export function endBlocked(parts: WithCalls): void {
  const { access, blocks, tasks } = parts;
  // Those that a process has not come to.
  tasks.discardWhere((record) => {
    const isBlocked = blocks.isBlocked(record.principal) || blocks.forwards.has(record.forward ?? '');
    return isBlocked && isOpen(record);
  });
  void access.slicer.run(endSignIns(parts));
  parts.storedBlocks.onBlocked((blocked) => {
    const forward = blockedForward(blocked.id);
    return forward === undefined ? endPrincipal(parts, blocked) : endForward(parts, { ...blocked, forward });
  });
}

async function endPrincipal(parts: WithCalls, { id, isForeign }: Blocked): Promise<void> {
  const { access, admitted, calls, suspendedCalls, sessionBindings, activeSessions, events, tasks, sessionStore } =
    parts;
  const names = new Set(AUTHENTICATED_KINDS.map((kind) => quotaOwner('', withKey({ kind, id }), undefined).name));
  const isOwner = ({ name }: QuotaOwner) => names.has(name);
  await admitted.end(({ principal }) => principal.id === id);
  // Those that no request has admitted here: rounds of tasks.
  await access.slicer.run(calls.endWhere(({ client }) => client.principal?.id === id, BLOCKED));
  await access.slicer.run(suspendedCalls.expireHidden());
  await access.slicer.run(activeSessions.endWhere(isOwner));
  await access.slicer.run(events.dropWhere(isOwner));
  sessionBindings.endHidden();
  // Replicas share these records.
  if (isForeign) return;
  tasks.discardWhere((record) => record.principal.id === id && isOpen(record));
  await access.slicer.run(endSignIns(parts));
  // Not awaited, as other replicas confirm these commits, perhaps while they wait for this one. The sessions are invalid already.
  void sessionStore.endWhere(isOwner).catch(() => undefined);
}

/** Ends the sign-ins of blocked principals, which could continue otherwise when the block has ended. Their commits are not awaited. */
function* endSignIns({ signIn, blocks }: WithCalls): Steps<void> {
  for (const each of signIn.stored.list()) {
    const principal = signIn.principalOf(each);
    if (principal.kind !== 'invalid' && blocks.isBlocked(principal)) void signIn.end(each.id).catch(() => undefined);
    yield;
  }
}

/** What is hidden has ended with the change of the registry. */
async function endForward(
  { access, calls, tasks }: WithCalls,
  { forward, isForeign }: Blocked & { readonly forward: string },
): Promise<void> {
  await access.slicer.run(calls.endWhere((call) => call.forward === forward, BLOCKED));
  if (!isForeign) tasks.discardWhere((record) => record.forward === forward && isOpen(record));
}
