import { type Evaluator, type ListedEvaluator, operations } from '@sluice/contract';
import type { UpdateOptions, UpdateResult } from '../policy/evaluators.ts';
import { OperationError } from '../registry/operation-error.ts';
import type { ExpectedRevision } from '../registry/store/revisions.ts';
import type { ManagementContext } from './context.ts';
import { type ApiResponse, dataResponse, listResponse } from './responses.ts';
import { actorOf, expectedOf, requireRevisionId, revisionRoutes, revisionTag } from './revisions.ts';
import type { ApiRequest, Router } from './router.ts';

/** `/api/v1/evaluators` without bindings. */
export function evaluatorRoutes(router: Router, { evaluators: active, dryRuns }: ManagementContext): void {
  const { list, replace, dryRun, connections, activate } = operations.evaluators;

  router.add(list, ({ may }) => {
    const { list: loaded, revision: id } = active.current;
    const shown = may('read_bodies') ? (each: Evaluator) => each : withoutPrompt;
    return listResponse(loaded, ({ definition }) => JSON.stringify(shown(definition)), { headers: revisionTag(id) });
  });

  // Without `await`, which would keep the submitted definitions in memory while the update waits for others.
  router.addWithBody(replace, (request) =>
    active.replace(request.body.evaluators, optionsOf(request)).then(updateResponse),
  );

  router.addWithBody(dryRun, async ({ http, body }) => {
    const canceled = new AbortController();
    // Without a client nobody needs the result, and the next dry run would wait for it.
    const onClose = () => canceled.abort(new OperationError('UNAVAILABLE', 'the client disconnected'));
    http.socket.once('close', onClose);
    try {
      return dataResponse(JSON.stringify(await dryRuns.run(body, canceled.signal)));
    } finally {
      http.socket.off('close', onClose);
    }
  });

  router.add(connections, () => dataResponse(JSON.stringify(active.connectionNames)));

  revisionRoutes(router, operations.evaluators, active.history);

  router.addWithBody(activate, async (request) => {
    const options = optionsOf(request);
    return updateResponse(await active.activate(requireRevisionId(request.name), options));
  });
}

function withoutPrompt({ llm: { prompt: _prompt, ...llm }, ...evaluator }: Evaluator): ListedEvaluator {
  return { ...evaluator, llm };
}

function updateResponse({ set, warnings, unconfirmed }: UpdateResult): ApiResponse {
  const definitions = set.list.map(({ definition }) => definition);
  return dataResponse(JSON.stringify(definitions), { headers: revisionTag(set.revision), warnings, unconfirmed });
}

/** A request that makes another revision active. */
interface UpdateRequest extends ApiRequest<'strict'> {
  readonly body: { readonly expected_revision?: number | undefined };
}

/** The expected active revision, and who changes it. OperationError BAD_REQUEST for an invalid `If-Match`. */
function optionsOf(request: UpdateRequest): UpdateOptions {
  return { ...updateOptionsOf(request), ...expectedOf(request, request.body) };
}

/** Who changes the evaluators, and whether all have to be loadable: the value of `?strict=`. */
export function updateOptionsOf({
  principal,
  query,
  requireStill,
}: Pick<ApiRequest<'strict'>, 'principal' | 'query' | 'requireStill'>): Omit<UpdateOptions, keyof ExpectedRevision> {
  const strict = query('strict');
  return {
    actor: actorOf(principal),
    strict: strict === undefined ? undefined : strict === 'true',
    requireStill: () => requireStill('administer'),
  };
}
