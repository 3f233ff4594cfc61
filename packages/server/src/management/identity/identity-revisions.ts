import { type IdentitySettings, identity as schema, type ValidationIssue } from '@sluice/contract';
import { ConfigError } from '../../http/settings.ts';
import type { Authenticated } from '../../identity/authenticator.ts';
import type { Caller, Identity } from '../../identity/identity.ts';
import type { May } from '../../identity/roles.ts';
import { identityIssues } from '../../identity/settings.ts';
import { OperationError } from '../../registry/operation-error.ts';
import { type Confirmed, RevisionHistory } from '../../registry/store/revision-history.ts';
import type { RevisionStore } from '../../registry/store/revision-store.ts';
import {
  checkExpected,
  type ExpectedRevision,
  type RevisionContent,
  type RevisionKind,
  serializeContent,
} from '../../registry/store/revisions.ts';
import type { TargetLogger } from '../../telemetry/log.ts';

/** The settings of `identity` have revisions. */
export const IDENTITY_REVISIONS: RevisionKind<IdentitySettings> = {
  what: 'identity',
  section: 'identity_revisions',
  member: 'identity',
  schema,
  isRequired: true,
};

/** Options of {@link IdentityRevisions}. */
export interface IdentityRevisionsOptions {
  readonly identity: Pick<Identity, 'replace' | 'suspend' | 'administers' | 'may'>;
  readonly store: RevisionStore;
  /** Returns what of the other settings of the service these do not work with. */
  readonly conflicts: (settings: IdentitySettings) => readonly ValidationIssue[];
  /** As {@link conflicts}, for changes over the API: what is registered prevents no start. */
  readonly forwardConflicts: (settings: IdentitySettings) => readonly ValidationIssue[];
  /** Ends what is not accepted any more, except by this. `before` decided about rights. */
  readonly end: (before: May | undefined, except?: Authenticated) => Promise<void>;
  readonly log: Pick<TargetLogger, 'info' | 'warn' | 'error'>;
  /** Returns epoch milliseconds; replaceable in tests. */
  readonly now?: () => number;
}

/** Author and precondition of a change. */
export interface IdentityChange extends ExpectedRevision {
  readonly actor: string | undefined;
  readonly caller: Caller;
  /** Otherwise the caller must be admin by the new settings. */
  readonly mayLockOut: boolean;
  /** Throws once the caller may not make the change any more, which may wait for others and for a token issuer. */
  readonly requireStill: () => void;
}

/**
 * Stores, replaces and activates the settings of `identity`. A change is stored as a revision, then counts in this process, and is
 * acknowledged when it counts on all replicas.
 */
export class IdentityRevisions {
  readonly history: RevisionHistory<IdentitySettings>;
  readonly #options: IdentityRevisionsOptions;
  /** The revision that counts in this process. */
  #revision = 0;

  constructor(options: IdentityRevisionsOptions) {
    const { log } = options;
    this.#options = options;
    this.history = new RevisionHistory({
      ...options,
      kind: IDENTITY_REVISIONS,
      adopt: () => this.#adopt(),
      onUnreadable: () => {
        log.error('identity of another replica cannot be read; all requests are rejected until it can be');
        return this.#suspend();
      },
    });
  }

  /** The active settings; undefined if none were ever configured. */
  get active(): IdentitySettings | undefined {
    const { active } = this.history;
    return active && this.history.contentOf(active);
  }

  /**
   * Reads the revisions and makes settings count: those of the configuration if they differ from the last startup revision, else those
   * of the active revision. Throws the error of the store, and {@link ConfigError} for settings that do not work.
   */
  start(configured: IdentitySettings | undefined): Promise<void> {
    return this.history.open(async () => {
      const content = configured && serializeContent(configured);
      const isNew = content !== undefined && this.history.isNewAtStart(content);
      const settings = isNew ? configured : this.active;
      if (!settings) return;
      const [issue] = this.#issuesOf(settings);
      const from = isNew ? 'the bootstrap file' : `the active revision ${this.history.activeId}`;
      if (issue) throw new ConfigError(`identity of ${from}: ${[issue.path, issue.message].filter(Boolean).join(' ')}`);
      if (isNew) await this.history.activateAtStart({ content, actor: undefined });
      await this.#activate(settings);
      this.#options.log.info('identity loaded', { revision: this.#revision, from });
    });
  }

  /**
   * Replaces the settings. Throws {@link OperationError}: CONFLICT if another revision is active than expected, UNPROCESSABLE for
   * settings that do not work, or by which the caller is no admin; they are stored as a rejected revision.
   */
  replace(settings: IdentitySettings, change: IdentityChange): Promise<Confirmed<{ readonly revision: number }>> {
    return this.history.update(async () => {
      checkExpected(change, this.history.activeId);
      return this.#submit(settings, serializeContent(settings), change);
    });
  }

  /** Submits the settings of a revision again. Throws as {@link replace}, and NOT_FOUND for an unknown revision. */
  activate(id: number, change: IdentityChange): Promise<Confirmed<{ readonly revision: number }>> {
    return this.history.update(async () => {
      const revision = this.history.get(id);
      if (!revision) throw new OperationError('NOT_FOUND', `revision not found: ${id}`);
      checkExpected(change, this.history.activeId);
      return this.#submit(this.history.contentOf(revision), revision, change);
    });
  }

  /** Rejects with {@link OperationError} UNPROCESSABLE, with all problems, for settings that {@link replace} would reject. */
  async requireValid(
    settings: IdentitySettings,
    { caller, mayLockOut }: Pick<IdentityChange, 'caller' | 'mayLockOut'>,
  ): Promise<void> {
    const { identity, forwardConflicts } = this.#options;
    const issues = [...this.#issuesOf(settings), ...forwardConflicts(settings)];
    if (issues.length > 0) throw invalidIdentity(issues);
    if (mayLockOut || (await identity.administers(settings, caller))) return;
    const message =
      'would not make the caller an admin: add a group of the caller, or repeat the request with lock_out=allow (sluice: --allow-lock-out)';
    throw invalidIdentity([{ path: 'roles.admin', message }]);
  }

  /** Waits for a revision that is being stored; queued changes are rejected. */
  close(): Promise<void> {
    return this.history.close();
  }

  async #submit(settings: IdentitySettings, content: RevisionContent, change: IdentityChange) {
    const { actor, caller } = change;
    try {
      await this.requireValid(settings, change);
    } catch (error) {
      if (error instanceof OperationError) await this.history.reject({ content, actor }, error.message);
      throw error;
    }
    change.requireStill();
    await this.history.activate({ content, actor });
    await this.#activate(settings, caller.authenticated);
    const revision = this.#revision;
    this.#options.log.warn('identity replaced', { revision, actor });
    return { revision };
  }

  /** Makes the active revision of another replica count here. Without it, this replica would accept whom the others do not. */
  async #adopt(): Promise<void> {
    if (this.history.activeId === this.#revision) return;
    try {
      const { active } = this;
      if (active) await this.#activate(active);
      this.#options.log.info('identity of another replica loaded', { revision: this.#revision });
    } catch (error) {
      await this.#suspend();
      throw error;
    }
  }

  /** `except`: the request that makes the change does not end. */
  async #activate(settings: IdentitySettings, except?: Authenticated): Promise<void> {
    const { identity, end } = this.#options;
    const { may } = identity;
    identity.replace(settings);
    this.#revision = this.history.activeId;
    await end(may, except);
  }

  /** What was accepted before ends as well: the others may not accept it any more. */
  async #suspend(): Promise<void> {
    const { identity, end } = this.#options;
    identity.suspend();
    this.#revision = 0;
    await end(undefined);
  }

  #issuesOf(settings: IdentitySettings): readonly ValidationIssue[] {
    return [...identityIssues(settings), ...this.#options.conflicts(settings)];
  }
}

/** The error for settings that are not valid, with paths from the request body on. */
export function invalidIdentity(issues: readonly ValidationIssue[]): OperationError {
  const details = issues.map(({ path, message }) => ({ path: ['identity', path].filter(Boolean).join('.'), message }));
  const [first] = details;
  return new OperationError('UNPROCESSABLE', `invalid identity: ${first?.path} ${first?.message}`, details);
}
