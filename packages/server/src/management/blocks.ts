import { type Block as BlockBody, durationMs, operations, type Right } from '@sluice/contract';
import { type Block, blockedForward } from '../identity/blocks.ts';
import { RECOVERY_GROUP } from '../identity/roles.ts';
import { OperationError } from '../registry/operation-error.ts';
import type { ManagementContext } from './context.ts';
import { dataResponse, listResponse } from './responses.ts';
import { missingRight } from './rights.ts';
import type { ApiRequest, Router } from './router.ts';

/** Longest id, in bytes: that of a principal with its prefix, or the name of a forward. */
const MAX_ID_BYTES = 1_100;

/** The last way to lift blocks, which ends by itself. */
const RECOVERY = `invalid block: ${RECOVERY_GROUP} recovers the access of administrators on the machine of the service`;

/** `/api/v1/blocks`. */
export function blockRoutes(router: Router, { storedBlocks, registry }: ManagementContext): void {
  const { list, get, set, remove } = operations.blocks;

  router.add(list, (request) => {
    const mayReadAll = request.may('read_bodies');
    const visible = storedBlocks.list().filter(([id]) => mayReadAll || blockedForward(id) !== undefined);
    return listResponse(visible, ([id, block]) => JSON.stringify(blockBody(id, block)));
  });

  router.add(get, (request) => {
    const { name: id } = request;
    const block = isPermitted(request, 'read_bodies') && storedBlocks.blocks.active(id);
    return dataResponse(JSON.stringify(blockBody(id, block || notFound(id))));
  });

  router.addWithBody(set, async (request) => {
    const { name: id, principal, query, body } = request;
    if (!isPermitted(request, 'administer')) {
      throw new OperationError('FORBIDDEN', `${missingRight('administer')}, which blocks of principals require`);
    }
    checkId(id);
    const forward = blockedForward(id);
    if (forward !== undefined && !registry.current.forwards.has(forward)) {
      throw new OperationError('UNPROCESSABLE', `invalid block: forward not found: ${forward}`);
    }
    if (id === RECOVERY_GROUP) throw new OperationError('UNPROCESSABLE', RECOVERY);
    if (id === principal.id && query('lock_out') !== 'allow') {
      const what = `${id} is the caller, who could not end this block: repeat the request with lock_out=allow (sluice: --allow-lock-out)`;
      throw new OperationError('CONFLICT', what);
    }
    const { for: duration, reason } = body;
    const until = duration === undefined ? undefined : Date.now() + durationMs(duration);
    const unconfirmed = await storedBlocks.block(id, { until, reason, by: actorOf(request) });
    return dataResponse(JSON.stringify(blockBody(id, storedBlocks.blocks.get(id) ?? notFound(id))), { unconfirmed });
  });

  router.add(remove, async (request) => {
    const { name: id } = request;
    if (!isPermitted(request, 'administer')) notFound(id);
    const { wasBlocked, unconfirmed } = await storedBlocks.unblock(id, actorOf(request));
    if (!wasBlocked) notFound(id);
    return dataResponse(JSON.stringify({ removed: id }), { unconfirmed });
  });
}

/** Whether an id is that of a forward, or the caller has the right for the others. */
function isPermitted({ name: id, may }: ApiRequest<never>, right: Right): boolean {
  return blockedForward(id) !== undefined || may(right);
}

/** OperationError BAD_REQUEST for what cannot be the id of a principal. */
function checkId(id: string): void {
  if (/^\P{Cc}+$/u.test(id) && Buffer.byteLength(id) <= MAX_ID_BYTES) return;
  throw new OperationError(
    'BAD_REQUEST',
    `invalid block: expected an id without control characters, of at most ${MAX_ID_BYTES} bytes`,
  );
}

function actorOf({ principal }: ApiRequest<never>): string | undefined {
  return principal.id === '' ? undefined : principal.id;
}

function blockBody(id: string, { since, until, reason, by }: Block): BlockBody {
  return { id, since: isoOf(since), until: until === undefined ? undefined : isoOf(until), reason, by };
}

function isoOf(ms: number): string {
  return new Date(ms).toISOString();
}

function notFound(id: string): never {
  throw new OperationError('NOT_FOUND', `block not found: ${id}`);
}
