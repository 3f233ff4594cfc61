import type { IdentitySettings, ValidationIssue } from '@sluice/contract';
import type { AdmittedRequests } from '../http/admitted-requests.ts';
import { comparableName } from '../http/header-lines.ts';
import type { Identity } from '../identity/identity.ts';
import { identityHeaders } from '../identity/settings.ts';
import { IDENTITY_REVISIONS, IdentityRevisions } from '../management/identity/identity-revisions.ts';
import type { Registry } from '../registry/registry.ts';
import { LogRevisionStore } from '../registry/store/revision-store.ts';
import { settingsProblems } from './config/bootstrap-identity.ts';
import type { WithLogs } from './storage.ts';

/** Loads who may call: by the settings of the bootstrap file if they are new, else by the active revision. */
export async function openIdentity({
  config,
  logger,
  records,
  registry,
  identity,
  admitted,
}: Pick<WithLogs, 'config' | 'logger' | 'records'> & {
  readonly registry: Registry;
  readonly identity: Identity;
  readonly admitted: AdmittedRequests;
}): Promise<IdentityRevisions> {
  const revisions = new IdentityRevisions({
    identity,
    store: new LogRevisionStore(records, IDENTITY_REVISIONS),
    conflicts: (settings) => settingsProblems(settings, config).map((message) => ({ path: '', message })),
    forwardConflicts: (settings) => forwardConflicts(settings, registry),
    end: (before, except) =>
      admitted.end((by, served, namespace) => by !== except && identity.rejects(before, by, served, namespace)),
    log: logger.target('service'),
  });
  await revisions.start(config.bootstrap.identity);
  return revisions;
}

/** Headers of registered forwards that would not be sent any more. */
function forwardConflicts(settings: IdentitySettings, { current }: Registry): ValidationIssue[] {
  const names = identityHeaders(settings);
  return current.forwards
    .values()
    .toArray()
    .flatMap(({ name: forward, headers = {} }) => {
      const found = Object.keys(headers).filter((name) => names.has(comparableName(name)));
      const message = `forward ${JSON.stringify(forward)} sends ${found.join(', ')}, which would say who calls; remove it from headers`;
      return found.length === 0 ? [] : [{ path: '', message }];
    });
}
