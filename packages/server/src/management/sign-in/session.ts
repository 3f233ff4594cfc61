import { operations, type Right, type Session } from '@sluice/contract';
import { ANONYMOUS } from '../../identity/principal.ts';
import { OperationError } from '../../registry/operation-error.ts';
import type { ManagementContext } from '../context.ts';
import { dataResponse, listResponse } from '../responses.ts';
import type { ApiRequest, Router } from '../router.ts';
import { signInFailed } from './page.ts';

/** `/api/v1/session` and `/api/v1/sessions`. */
export function sessionRoutes(router: Router, context: ManagementContext): void {
  for (const path of ['/api/v1/session/login', '/api/v1/session/callback'])
    router.addPath(path, 'open', () => signInFailed(400, NO_ISSUER));
  router.add(operations.session.get, async (request) => dataResponse(JSON.stringify(await describe(request, context))));
  router.add(operations.session.signOut, () => dataResponse('{"signedOut":false}'));
  router.add(operations.session.list, () => listResponse([], JSON.stringify));
  router.add(operations.session.end, ({ name }) => {
    throw new OperationError('NOT_FOUND', `session not found: ${name}`);
  });
}

const NO_ISSUER = 'no token issuer of identity.tokens has sign_in';
const RIGHTS = ['read', 'read_bodies', 'change_registry', 'administer'] as const satisfies readonly Right[];

/** The request is authenticated here: it is open, so that a credential that is not accepted is no error. */
async function describe(request: ApiRequest<never>, { identity, may }: ManagementContext): Promise<Session> {
  const { http, address } = request;
  const { url: target, headers, head, socket } = http;
  const { credentials } = head;
  const found = await identity.authenticate({ target, headers, credentials, address, peer: socket.remoteAddress });
  const isRejected = found.kind === 'rejected';
  const principal = isRejected ? ANONYMOUS : found.principal;
  const { kind, id, source, person, groups } = principal;
  return {
    principal: { kind, id, source, ...(person !== undefined && { person }), groups: [...groups] },
    rights: RIGHTS.filter((right) => may?.(principal, right) ?? true),
    ...(isRejected && { rejected: found.reason }),
    offer: { scopes: [], reason: NO_ISSUER },
  };
}
