import { z } from 'zod';
import { namespace, namespaceInput, namespaceUpdate } from '../namespace.ts';
import { removed } from '../removed.ts';
import { operation } from './operation.ts';

const tag = 'namespaces';
const path = '/api/v1/namespaces';

/** `/api/v1/namespaces` (specification, "Endpoints"; decisions 2.3, 4.1, 4.2). */
export const namespaceOperations = {
  list: operation({
    id: 'listNamespaces',
    method: 'GET',
    path,
    tag,
    summary: 'List the namespaces',
    answers: { 200: { description: 'The namespaces, `default` among them.', data: z.array(namespace) } },
    failures: [],
  }),
  create: operation({
    id: 'createNamespace',
    method: 'POST',
    path,
    tag,
    summary: 'Create a namespace',
    description: 'Its name is the path segment of its MCP endpoint.',
    body: { kind: 'namespace', schema: namespaceInput },
    answers: {
      200: { description: 'It existed, and is unchanged.', data: namespace },
      201: { description: 'The namespace.', data: namespace, location: true },
    },
    failures: [],
  }),
  get: operation({
    id: 'getNamespace',
    method: 'GET',
    path: `${path}/{name}`,
    tag,
    summary: 'Read one namespace',
    answers: { 200: { description: 'The namespace.', data: namespace } },
    failures: ['NOT_FOUND'],
  }),
  update: operation({
    id: 'updateNamespace',
    method: 'PUT',
    path: `${path}/{name}`,
    tag,
    summary: 'Replace the labels of a namespace',
    description: 'Renaming does not exist: a name in the body is ignored.',
    body: { kind: 'namespace', schema: namespaceUpdate },
    answers: { 200: { description: 'The namespace as it is now.', data: namespace } },
    failures: ['NOT_FOUND'],
  }),
  remove: operation({
    id: 'deleteNamespace',
    method: 'DELETE',
    path: `${path}/{name}`,
    tag,
    summary: 'Delete a namespace',
    description: 'One that is not empty is refused with the counts of what it holds. `default` is never deleted.',
    query: {
      cascade: { description: '`true` deletes all that it holds with it, forwards included.', values: ['true'] },
    },
    answers: { 200: { description: 'Its name.', data: removed } },
    failures: ['NOT_FOUND', 'CONFLICT'],
  }),
};
