import { z } from 'zod';
import { dryRunInput, dryRunResult } from '../schemas/dry-run.ts';
import {
  binding,
  bindingInput,
  evaluator,
  evaluatorRevision,
  evaluatorRevisionContent,
  evaluatorsInput,
  evaluatorWarning,
  listedEvaluator,
  unbindResult,
} from '../schemas/evaluators.ts';
import { activationInput } from '../schemas/revisions.ts';
import { defineOperation } from './operation.ts';
import { REVISION_ETAG, REVISION_IF_MATCH } from './revisions.ts';

const tag = 'evaluators';
const path = '/api/v1/evaluators';

const id = z.number().int().positive().describe('Revision number.');

/** Whether evaluators may be skipped. */
const query = {
  strict: {
    description:
      'Reject the request if an action cannot be loaded, instead of skipping its evaluator. The default is `SERVICE_EVALUATORS_STRICT`.',
    values: ['true', 'false'],
  },
} as const;

/** Response of a change. */
const activeEvaluators = {
  description:
    'Active evaluators. `warnings` lists evaluators that were skipped because they could not be loaded, and those that cannot match a request',
  data: z.array(evaluator),
  warnings: z.array(evaluatorWarning),
  etag: REVISION_ETAG,
} as const;

/** `/api/v1/evaluators`. */
export const evaluatorOperations = {
  list: defineOperation({
    id: 'listEvaluators',
    method: 'GET',
    path,
    right: 'read',
    tag,
    summary: 'List evaluators',
    description: 'Prompts need the right `read_bodies`; they are omitted without it.',
    responses: {
      200: {
        description: 'Active evaluators in order of execution',
        data: z.array(listedEvaluator),
        etag: REVISION_ETAG,
      },
    },
    errors: [],
  }),
  replace: defineOperation({
    id: 'replaceEvaluators',
    method: 'PUT',
    path,
    right: 'administer',
    tag,
    summary: 'Replace evaluators',
    description: `Replaces all evaluators and compiles their actions. A changed action file takes effect with the next replacement. An evaluator whose action cannot be compiled is skipped with a warning, unless \`strict\` is set. A rejected request changes nothing. In-flight requests finish with the previous evaluators. ${REVISION_IF_MATCH}`,
    query,
    body: { kind: 'evaluators', schema: evaluatorsInput },
    responses: { 200: activeEvaluators },
    errors: ['CONFLICT', 'UNPROCESSABLE'],
  }),
  dryRun: defineOperation({
    id: 'dryRunEvaluator',
    method: 'POST',
    path: `${path}/dry-run`,
    right: 'administer',
    tag,
    summary: 'Evaluate a request with an evaluator that is not active',
    description:
      'One evaluation in a process of its own, one at a time. Validates the evaluator and loads its action like an update. Without `answer`, the model is called. Nothing is enforced, stored or counted, and copies of tools are not made.',
    body: { kind: 'dry run', schema: dryRunInput },
    responses: { 200: { description: 'What the evaluator would do', data: dryRunResult } },
    errors: ['UNPROCESSABLE', 'UNAVAILABLE'],
  }),
  connections: defineOperation({
    id: 'listLlmConnections',
    method: 'GET',
    path: `${path}/llm-connections`,
    right: 'read',
    tag,
    summary: 'List LLM connections',
    description: 'Connection settings come from the bootstrap file and are never returned.',
    responses: { 200: { description: 'Sorted connection names', data: z.array(z.string()) } },
    errors: [],
  }),
  bindings: defineOperation({
    id: 'listNamespaceBindings',
    method: 'GET',
    path: `${path}/namespaces`,
    right: 'read',
    tag,
    summary: 'List namespace bindings',
    responses: {
      200: {
        description: 'Conversation ids by namespace',
        data: z.record(z.string(), z.string()),
      },
    },
    errors: [],
  }),
  bind: defineOperation({
    id: 'bindNamespace',
    method: 'PUT',
    path: `${path}/namespaces/{namespace}`,
    right: 'administer',
    tag,
    summary: 'Bind a namespace to a conversation',
    description: 'The namespace does not have to exist. Bindings are lost when the service stops.',
    body: { kind: 'binding', schema: bindingInput },
    responses: { 200: { description: 'The binding', data: binding } },
    errors: [],
  }),
  unbind: defineOperation({
    id: 'unbindNamespace',
    method: 'DELETE',
    path: `${path}/namespaces/{namespace}`,
    right: 'administer',
    tag,
    summary: 'Unbind a namespace',
    responses: { 200: { description: 'The namespace, even if it was not bound', data: unbindResult } },
    errors: [],
  }),
  revisions: defineOperation({
    id: 'listEvaluatorRevisions',
    method: 'GET',
    path: `${path}/revisions`,
    right: 'read',
    tag,
    summary: 'List evaluator revisions',
    description: 'At most 50 revisions are stored, including the active one.',
    responses: { 200: { description: 'Revisions, newest first', data: z.array(evaluatorRevision) } },
    errors: [],
  }),
  activeRevision: defineOperation({
    id: 'getActiveEvaluatorRevision',
    method: 'GET',
    path: `${path}/revisions/active`,
    right: 'read_bodies',
    tag,
    summary: 'Get the active evaluator revision',
    responses: { 200: { description: 'The revision', data: evaluatorRevisionContent } },
    errors: ['NOT_FOUND'],
  }),
  revision: defineOperation({
    id: 'getEvaluatorRevision',
    method: 'GET',
    path: `${path}/revisions/{id}`,
    right: 'read_bodies',
    pathParameter: id,
    tag,
    summary: 'Get an evaluator revision',
    responses: { 200: { description: 'The revision', data: evaluatorRevisionContent } },
    errors: ['NOT_FOUND'],
  }),
  activate: defineOperation({
    id: 'activateEvaluatorRevision',
    method: 'POST',
    path: `${path}/revisions/{id}/activate`,
    right: 'administer',
    pathParameter: id,
    tag,
    summary: 'Activate an evaluator revision',
    description: `Submits the evaluators of the revision again, as a new revision. Those that were skipped when it was active may be skipped again, unless \`strict\` is set. The body is optional. ${REVISION_IF_MATCH}`,
    query,
    body: { kind: 'activation', schema: activationInput, optional: true },
    responses: { 200: activeEvaluators },
    errors: ['NOT_FOUND', 'CONFLICT', 'UNPROCESSABLE'],
  }),
};
