import {
  type IdentitySettings,
  type IdentityStatus,
  jsonObject,
  operations,
  identity as schema,
  type ValidationIssue,
  validate,
} from '@sluice/contract';
import type { ServiceKey } from '../../identity/service-keys.ts';
import { identityWarnings, unrestrictedCallers } from '../../identity/settings.ts';
import { parseBody } from '../body.ts';
import type { ManagementContext } from '../context.ts';
import { dataResponse } from '../responses.ts';
import { actorOf, expectedOf, requireRevisionId, revisionRoutes, revisionTag } from '../revisions.ts';
import type { ApiRequest, Router } from '../router.ts';
import { type IdentityChange, invalidIdentity } from './identity-revisions.ts';

const { get, status, replace, activate } = operations.identity;

/** Members of settings that do not match their schema are as wrong as others: UNPROCESSABLE, with all problems. */
const shape = replace.body.schema.extend({ identity: jsonObject });

/** `/api/v1/identity`. */
export function identityRoutes(router: Router, { identityRevisions: revisions, serviceKeys }: ManagementContext): void {
  const { history } = revisions;
  const respond = (settings: IdentitySettings | undefined, unconfirmed?: readonly string[]) =>
    dataResponse(JSON.stringify(settings ?? null), { headers: revisionTag(history.activeId), unconfirmed });

  router.add(get, () => respond(revisions.active));

  router.add(status, () => {
    const { active } = revisions;
    const found: IdentityStatus = {
      revision: history.activeId,
      warnings: active ? warningsOf(active) : [],
      keys: keysOf(serviceKeys()),
    };
    return dataResponse(JSON.stringify(found));
  });

  router.add(replace, async (request, body) => {
    const submitted = parseBody(body, shape, replace.body);
    const settings = parseIdentity(submitted.identity);
    const { unconfirmed } = await revisions.replace(settings, {
      ...changeOf(request),
      ...expectedOf(request, submitted),
    });
    return respond(settings, unconfirmed);
  });

  router.addWithBody(activate, async (request) => {
    const change = { ...changeOf(request), ...expectedOf(request, request.body) };
    const { unconfirmed } = await revisions.activate(requireRevisionId(request.name), change);
    return respond(revisions.active, unconfirmed);
  });

  revisionRoutes(router, operations.identity, history);
}

/** Parses settings. OperationError UNPROCESSABLE with all problems. */
export function parseIdentity(submitted: unknown): IdentitySettings {
  const result = validate(schema, submitted);
  if ('value' in result) return result.value;
  throw invalidIdentity(result.issues);
}

/** Who changes the identity, and whether it must be admin afterwards. */
export function changeOf({
  principal,
  caller,
  query,
  requireStill,
}: Pick<ApiRequest<'lock_out'>, 'principal' | 'caller' | 'query' | 'requireStill'>): Omit<
  IdentityChange,
  'expectedRevision'
> {
  // Of this request only, which is answered even if its credential is not accepted any more.
  caller.authenticated = { ...caller.authenticated };
  const mayLockOut = query('lock_out') === 'allow';
  return { actor: actorOf(principal), caller, mayLockOut, requireStill: () => requireStill('administer') };
}

function warningsOf(settings: IdentitySettings): ValidationIssue[] {
  const callers = unrestrictedCallers(settings);
  const message = `are missing: ${callers} can change everything; list the groups that may administer in roles.admin`;
  return [...(callers === undefined ? [] : [{ path: 'roles', message }]), ...identityWarnings(settings)];
}

/** Joins the hashes of a key that is being exchanged. */
function keysOf(keys: readonly ServiceKey[]): IdentityStatus['keys'] {
  return Map.groupBy(keys, ({ settings }) => settings)
    .entries()
    .map(([{ name, groups, for: namespaces, management }, each]) => ({
      name,
      groups,
      for: [...namespaces],
      management,
      expiresAt: isoOf(each[0]?.authenticated.expiresAt),
      hashes: each.map(({ hash, lastUsedAt }) => ({ sha256: hash, lastUsedAt: isoOf(lastUsedAt) })),
    }))
    .toArray();
}

function isoOf(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}
