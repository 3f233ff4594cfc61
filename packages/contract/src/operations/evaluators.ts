import { z } from 'zod';
import {
  activationInput,
  binding,
  bindingInput,
  compileWarning,
  evaluator,
  evaluatorRevision,
  evaluatorRevisionContent,
  evaluatorsInput,
  unbound,
} from '../evaluator.ts';
import { operation } from './operation.ts';

const tag = 'evaluators';
const path = '/api/v1/evaluators';

/** The path's parameter where it is a revision. */
const id = z.number().int().positive().describe('The number of the revision.');

/** What becomes of an `ETag` that is sent back. */
const IF_MATCH =
  'An `If-Match` with the `ETag` of an earlier answer refuses the request with `CONFLICT` when another revision is active, as `expected_revision` does; `*` refuses it when none is. Where both are sent, both have to hold.';

/** What is loaded now, after a change. */
const loaded = {
  description:
    'The evaluators that are active now. `warnings` is there when some could not be loaded; those are not among them.',
  data: z.array(evaluator),
  warnings: z.array(compileWarning),
  etag: true,
} as const;

/** `/api/v1/evaluators` (specification, "Evaluator management endpoints"; decisions 2.10, 4.5). */
export const evaluatorOperations = {
  list: operation({
    id: 'listEvaluators',
    method: 'GET',
    path,
    tag,
    summary: 'List the evaluators that are active',
    answers: {
      200: { description: 'The evaluators, in the order in which they run.', data: z.array(evaluator), etag: true },
    },
    failures: [],
  }),
  replace: operation({
    id: 'replaceEvaluators',
    method: 'PUT',
    path,
    tag,
    summary: 'Replace all evaluators',
    description: `Actions are compiled now, and only now: a changed file counts from the next such request on. One that cannot be compiled leaves its evaluator out, and a warning says so. When the request is refused, nothing changes. Requests under way finish with the evaluators that they began with. ${IF_MATCH}`,
    body: { kind: 'evaluators', schema: evaluatorsInput },
    answers: { 200: loaded },
    failures: ['CONFLICT', 'UNPROCESSABLE'],
  }),
  connections: operation({
    id: 'listLlmConnections',
    method: 'GET',
    path: `${path}/llm-connections`,
    tag,
    summary: 'List the names of the connections to models',
    description: 'What they consist of is set in the configuration of the service, and told nowhere.',
    answers: { 200: { description: 'The names, sorted.', data: z.array(z.string()) } },
    failures: [],
  }),
  bindings: operation({
    id: 'listNamespaceBindings',
    method: 'GET',
    path: `${path}/namespaces`,
    tag,
    summary: 'List the namespaces that are bound to a conversation',
    answers: {
      200: {
        description: 'The id of the conversation, by the name of the namespace.',
        data: z.record(z.string(), z.string()),
      },
    },
    failures: [],
  }),
  bind: operation({
    id: 'bindNamespace',
    method: 'PUT',
    path: `${path}/namespaces/{namespace}`,
    tag,
    summary: 'Bind a namespace to a conversation',
    description: 'The namespace need not exist. It stays bound until the service stops, or until it is unbound.',
    body: { kind: 'binding', schema: bindingInput },
    answers: { 200: { description: 'The binding.', data: binding } },
    failures: [],
  }),
  unbind: operation({
    id: 'unbindNamespace',
    method: 'DELETE',
    path: `${path}/namespaces/{namespace}`,
    tag,
    summary: 'Unbind a namespace from its conversation',
    answers: { 200: { description: 'Its name, also when it was not bound.', data: unbound } },
    failures: [],
  }),
  revisions: operation({
    id: 'listEvaluatorRevisions',
    method: 'GET',
    path: `${path}/revisions`,
    tag,
    summary: 'List the sets of evaluators that were submitted',
    description: 'At most 50 are kept, the active one among them.',
    answers: { 200: { description: 'The revisions, newest first.', data: z.array(evaluatorRevision) } },
    failures: [],
  }),
  activeRevision: operation({
    id: 'getActiveEvaluatorRevision',
    method: 'GET',
    path: `${path}/revisions/active`,
    tag,
    summary: 'Read the active revision',
    answers: { 200: { description: 'The revision.', data: evaluatorRevisionContent } },
    failures: ['NOT_FOUND'],
  }),
  revision: operation({
    id: 'getEvaluatorRevision',
    method: 'GET',
    path: `${path}/revisions/{id}`,
    parameter: id,
    tag,
    summary: 'Read one revision',
    answers: { 200: { description: 'The revision.', data: evaluatorRevisionContent } },
    failures: ['NOT_FOUND'],
  }),
  activate: operation({
    id: 'activateEvaluatorRevision',
    method: 'POST',
    path: `${path}/revisions/{id}/activate`,
    parameter: id,
    tag,
    summary: 'Make the evaluators of a revision the active ones',
    description: `They become a new revision, as if they were submitted once more. No body is needed. ${IF_MATCH}`,
    body: { kind: 'activation', schema: activationInput, optional: true },
    answers: { 200: loaded },
    failures: ['NOT_FOUND', 'CONFLICT', 'UNPROCESSABLE'],
  }),
};
