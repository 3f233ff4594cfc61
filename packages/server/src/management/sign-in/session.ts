import { operations, type Right, type Session, type SignInSession } from '@sluice/contract';
import { BLOCKED } from '../../http/server.ts';
import { ANONYMOUS_CALLER } from '../../identity/authenticator.ts';
import { type Invalid, PROXY_SOURCE } from '../../identity/claims.ts';
import { createUser, type Principal } from '../../identity/principal.ts';
import { isFromConsole } from '../../identity/sign-ins.ts';
import { OperationError } from '../../registry/operation-error.ts';
import type { ManagementContext } from '../context.ts';
import { dataResponse, listResponse, withHeaders } from '../responses.ts';
import type { ApiRequest, Router } from '../router.ts';
import type { StoredSignIn } from './stored-sign-ins.ts';

const FOREIGN_SIGN_OUT = 'sign-outs are accepted from pages of the console only';

/** `/api/v1/session` and what is below it, that of the caller; `/api/v1/sessions`, those of all. */
export function sessionRoutes(router: Router, context: ManagementContext): void {
  const { signIn } = context;
  const { stored, cookies } = signIn;
  const idOf = ({ http }: ApiRequest<never>) => stored.idIn(http.head.credentials.get('cookie'));
  router.addPath('/api/v1/session/login', 'open', ({ http }) => signIn.begin(http));
  router.addPath('/api/v1/session/callback', 'open', ({ http }) => signIn.complete(http));
  router.add(operations.session.get, async (request) => {
    const response = dataResponse(JSON.stringify(await describe(request, context)));
    return withHeaders(response, { 'cache-control': 'no-store' });
  });
  router.add(operations.session.signOut, async (request) => {
    const id = idOf(request);
    if (id === undefined) return dataResponse('{"signedOut":false}');
    if (!isFromConsole(request.http.headers)) throw new OperationError('FORBIDDEN', FOREIGN_SIGN_OUT);
    const signedOut = await signIn.end(id);
    return { ...dataResponse(JSON.stringify({ signedOut })), cookies: [cookies.deleteSession()] };
  });
  router.add(operations.session.list, (request) => {
    const current = idOf(request);
    return listResponse(stored.list(), (each) =>
      JSON.stringify({ ...render(each, signIn.principalOf(each)), current: each.id === current }),
    );
  });
  router.add(operations.session.end, async ({ name }) => {
    if (await signIn.end(name)) return dataResponse(JSON.stringify({ removed: name }));
    throw new OperationError('NOT_FOUND', `session not found: ${name}`);
  });
}

const RIGHTS = ['read', 'read_bodies', 'change_registry', 'administer'] as const satisfies readonly Right[];

/** The request is authenticated here: it is open, so that a credential that is not accepted is no error. */
async function describe(
  { http, address }: ApiRequest<never>,
  { identity, may, storedBlocks, signIn }: ManagementContext,
): Promise<Session> {
  const { url: target, headers, head, socket } = http;
  const peer = socket.remoteAddress;
  const given = await identity.authenticate({ target, headers, credentials: head.credentials, address, peer });
  const found = given.kind === 'authenticated' && storedBlocks.blocks.isBlocked(given.principal) ? BLOCKED : given;
  const isRejected = found.kind === 'rejected';
  const { principal, proof, expiresAt } = isRejected ? ANONYMOUS_CALLER : found;
  const { kind, id, source, person, groups } = principal;
  const isSignedIn = proof.kind === 'sign_in' && expiresAt !== undefined;
  return {
    principal: { kind, id, source, ...(person !== undefined && { person }), groups: [...groups] },
    rights: RIGHTS.filter((right) => may?.(principal, right) ?? true),
    ...(isRejected && { rejected: found.reason }),
    ...(isSignedIn && { signIn: { expiresAt: timeOf(expiresAt) } }),
    offer: signIn.offer(http, source === PROXY_SOURCE),
  };
}

/** `found` is invalid if the settings of its issuer have changed, so that it does not count. */
function render(signIn: StoredSignIn, found: Principal | Invalid): Omit<SignInSession, 'current'> {
  const { id, issuer: source, claims, signedInAt, refreshedAt, expires } = signIn;
  const { kind, id: name, person } = found.kind === 'invalid' ? createUser(`${source}/${claims.sub}`, source) : found;
  return {
    id,
    principal: { kind: kind === 'service_account' ? kind : 'user', id: name, source },
    ...(person !== undefined && { person }),
    signedInAt: timeOf(signedInAt),
    refreshedAt: timeOf(refreshedAt),
    expiresAt: timeOf(expires),
  };
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}
