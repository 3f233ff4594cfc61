import { z } from 'zod';
import { viewEntry } from '../schemas/namespace-view.ts';
import { namespace, namespaceDeleteResult, namespaceInput, namespaceUpdate } from '../schemas/namespaces.ts';
import { defineOperation, PAGE_QUERY } from './operation.ts';

const tag = 'namespaces';
const path = '/api/v1/namespaces';

/** `/api/v1/namespaces`. */
export const namespaceOperations = {
  list: defineOperation({
    id: 'listNamespaces',
    method: 'GET',
    path,
    right: 'read',
    tag,
    summary: 'List namespaces',
    responses: { 200: { description: 'Namespaces, including `default`', data: z.array(namespace) } },
    errors: [],
  }),
  create: defineOperation({
    id: 'createNamespace',
    method: 'POST',
    path,
    right: 'change_registry',
    tag,
    summary: 'Create a namespace',
    description: 'The name is the path segment of the MCP endpoint.',
    body: { kind: 'namespace', schema: namespaceInput },
    responses: {
      200: { description: 'Existing namespace, unchanged', data: namespace },
      201: { description: 'Created namespace', data: namespace, location: true },
    },
    errors: [],
  }),
  get: defineOperation({
    id: 'getNamespace',
    method: 'GET',
    path: `${path}/{name}`,
    right: 'read',
    tag,
    summary: 'Get a namespace',
    responses: { 200: { description: 'The namespace', data: namespace } },
    errors: ['NOT_FOUND'],
  }),
  update: defineOperation({
    id: 'updateNamespace',
    method: 'PUT',
    path: `${path}/{name}`,
    right: 'change_registry',
    tag,
    summary: 'Replace the labels of a namespace',
    description: 'Namespaces cannot be renamed; `name` in the body is ignored.',
    body: { kind: 'namespace', schema: namespaceUpdate },
    responses: { 200: { description: 'Updated namespace', data: namespace } },
    errors: ['NOT_FOUND'],
  }),
  remove: defineOperation({
    id: 'deleteNamespace',
    method: 'DELETE',
    path: `${path}/{name}`,
    right: 'change_registry',
    tag,
    summary: 'Delete a namespace',
    description:
      'A namespace that is not empty is rejected with the counts of its entries. `default` cannot be deleted. Discovered entries of other forwards that were moved to the namespace are disabled in the namespace of their forward.',
    query: {
      cascade: { description: '`true` deletes all entries and forwards of the namespace.', values: ['true', 'false'] },
    },
    responses: { 200: { description: 'Name of the deleted namespace', data: namespaceDeleteResult } },
    errors: ['NOT_FOUND', 'CONFLICT'],
  }),
  view: defineOperation({
    id: 'viewNamespace',
    method: 'GET',
    path: `${path}/{name}/view`,
    right: 'read',
    tag,
    summary: 'List what a client of a namespace is offered',
    description:
      'All entries of the namespace as a client of this era with these capabilities sees them, with the source of each, and those that it is not offered with the reason. Discovers the forwards with the capabilities if they are new, like such a client. Evaluators that filter lists are not applied.',
    query: {
      era: { description: 'Era of the client: `modern` (default) or `legacy`.' },
      capabilities: { description: 'Capabilities of the client: a JSON object. Default: none.' },
      ...PAGE_QUERY,
    },
    responses: {
      200: { description: 'Entries by kind, in the order of lists', data: z.array(viewEntry), paged: true },
    },
    errors: ['NOT_FOUND'],
  }),
};
