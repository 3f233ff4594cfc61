import { createHash } from 'node:crypto';
import { type Evaluator, operations, type StateChange, type StateInput } from '@sluice/contract';
import { compareEvaluators } from '../policy/desired-evaluators.ts';
import type { Evaluators, UpdateResult } from '../policy/evaluators.ts';
import { applyStateInSteps, inPlanOrder } from '../registry/desired-state.ts';
import type { Draft } from '../registry/draft.ts';
import { OperationError } from '../registry/operation-error.ts';
import type { Steps } from '../registry/steps.ts';
import type { ManagementContext } from './context.ts';
import { requireMatch } from './entity-tag.ts';
import { updateOptionsOf } from './evaluators.ts';
import { compareIdentity } from './identity/desired-identity.ts';
import type { IdentityRevisions } from './identity/identity-revisions.ts';
import { changeOf } from './identity/routes.ts';
import { requireUnbound } from './namespaces.ts';
import { type ApiResponse, arraySlices, envelopeEnd, streamResponse } from './responses.ts';
import { missingRight } from './rights.ts';
import type { ApiRequest, Router } from './router.ts';
import { parseState } from './state-body.ts';

/** Changes and their tag. */
interface StatePlan {
  readonly changes: readonly StateChange[];
  readonly etag: string;
}

/** `/api/v1/state`. */
export function stateRoutes(router: Router, context: ManagementContext): void {
  const { registry, forwards, forwardValidator: checks, evaluators, identityRevisions, bindings } = context;
  router.add(operations.state.apply, async (request, body) => {
    const { http, query, origin } = request;
    const state = await registry.slicer.run(parseState(body));
    const [administered] = (['evaluators', 'identity'] as const).filter((section) => state[section]);
    if (administered && !request.may('administer')) {
      throw new OperationError('FORBIDDEN', `${missingRight('administer')}, which "${administered}" requires`);
    }
    const prune = query('prune') === 'true';
    const { active } = evaluators.history;
    const policy =
      state.evaluators &&
      compareEvaluators(state.evaluators, active ? evaluators.history.contentOf(active) : [], prune);
    const identity = await identityPlan(request, state, identityRevisions);
    const apply = function* (draft: Draft): Steps<StatePlan> {
      const changes = inPlanOrder([
        ...(yield* applyStateInSteps(draft, state, { prune, checks })),
        ...(policy?.changes ?? []),
        ...identity.changes,
      ]);
      const etag = yield* tagOf(changes);
      requireMatch(http.headers['if-match'], etag, 'what the state changes');
      return { changes, etag };
    };
    // A state that cannot be applied changes no evaluator.
    const preview = await registry.preview(apply);
    const deletedNamespaces = preview.changes.filter(({ kind, action }) => kind === 'namespace' && action === 'delete');
    requireUnbound(
      request,
      bindings,
      deletedNamespaces.map(({ name }) => name),
    );
    if (query('dry_run') === 'true' || preview.changes.length === 0) return stateResponse(preview);

    const update = evaluatorUpdates(request, { evaluators, active: active?.id ?? 0 });
    const updated = await update(policy?.updated);
    const replaced = await identity.replace();
    const { value, unconfirmed } = await registry.commit(apply, origin);
    const deleted = await update(policy?.remaining, true);
    await Promise.all((state.forwards ?? []).map(({ name }) => forwards.settled(name)));
    return stateResponse(value, {
      warnings: [...updated.warnings, ...deleted.warnings],
      unconfirmed: [...new Set([...unconfirmed, ...replaced, ...updated.unconfirmed, ...deleted.unconfirmed])],
    });
  });
}

/** What becomes of the identity. Throws OperationError UNPROCESSABLE if the state must not have it. */
async function identityPlan(
  request: ApiRequest<'lock_out'>,
  { identity: wanted }: StateInput,
  revisions: IdentityRevisions,
): Promise<{ readonly changes: readonly StateChange[]; replace(): Promise<readonly string[]> }> {
  const changes = wanted ? compareIdentity(wanted, revisions.active) : [];
  if (!wanted || changes.length === 0) return { changes, replace: async () => [] };
  const change = { ...changeOf(request), expectedRevision: revisions.history.activeId };
  await revisions.requireValid(wanted, change);
  return { changes, replace: async () => (await revisions.replace(wanted, change)).unconfirmed };
}

/** Evaluators have been replaced, or did not have to be. */
type EvaluatorResult = Pick<UpdateResult, 'warnings' | 'unconfirmed'>;

/** Returns a function that replaces the evaluators, unless others have changed them since the revision `active`. */
function evaluatorUpdates(
  request: ApiRequest<'strict'>,
  { evaluators, active }: { readonly evaluators: Evaluators; readonly active: number },
): (list: readonly Evaluator[] | undefined, isLast?: boolean) => Promise<EvaluatorResult> {
  let expectedRevision = active;
  return async (list, isLast = false) => {
    if (!list) return { warnings: [], unconfirmed: [] };
    const options = { ...updateOptionsOf(request), expectedRevision };
    // The same change has replaced the identity, by which its caller need not be admin any more.
    const result = await evaluators.replace(list, isLast ? { ...options, requireStill: undefined } : options);
    expectedRevision = result.set.revision;
    return result;
  };
}

/** Changes that are hashed in one step. */
const PER_STEP = 64;

/** The tag of changes: what is made with it is what was returned with it. */
function* tagOf(changes: readonly StateChange[]): Steps<string> {
  const hash = createHash('sha256');
  for (const [index, change] of changes.entries()) {
    hash.update(`${JSON.stringify(change)}\n`);
    if (index % PER_STEP === 0) yield;
  }
  return `"${hash.digest('base64url').slice(0, 22)}"`;
}

function stateResponse({ changes, etag }: StatePlan, result?: EvaluatorResult): ApiResponse {
  const { warnings = [], unconfirmed = [] } = result ?? {};
  const end = `]}${envelopeEnd(warnings, unconfirmed)}`;
  const slices = arraySlices('{"data":{"changes":[', changes, (change) => JSON.stringify(change), end, PER_STEP);
  return streamResponse(slices, { etag, 'content-type': 'application/json' });
}
