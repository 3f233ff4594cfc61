import { z } from 'zod';
import { deleteResult } from '../schemas/envelope.ts';
import { FORWARD_HISTORY_CAPACITY, forwardChange } from '../schemas/forward-history.ts';
import { forwardTest, forwardTestInput } from '../schemas/forward-test.ts';
import { forward, forwardInput, forwardPatch, refreshResult } from '../schemas/forwards.ts';
import { defineOperation, PAGE_QUERY } from './operation.ts';

const tag = 'forwards';
const path = '/api/v1/forwards';
const ETAG = 'Identifies the state of the members that operators set. Send it as `If-Match` with a change.';

/** `/api/v1/forwards`. */
export const forwardOperations = {
  list: defineOperation({
    id: 'listForwards',
    method: 'GET',
    path,
    right: 'read',
    tag,
    summary: 'List forwards',
    query: { namespace: { description: 'Filter by namespace.' }, ...PAGE_QUERY },
    responses: { 200: { description: 'Forwards in order of registration', data: z.array(forward), paged: true } },
    errors: [],
  }),
  create: defineOperation({
    id: 'createForward',
    method: 'POST',
    path,
    right: 'change_registry',
    tag,
    summary: 'Register a forward',
    description:
      'Registers an upstream MCP server and discovers its tools, resources and prompts. An upstream that is down or takes more than 30 s is registered with `available: false` and discovered in the background.',
    body: { kind: 'forward', schema: forwardInput },
    responses: { 201: { description: 'Registered forward', data: forward, location: true } },
    errors: ['CONFLICT', 'UNPROCESSABLE'],
  }),
  get: defineOperation({
    id: 'getForward',
    method: 'GET',
    path: `${path}/{name}`,
    right: 'read',
    tag,
    summary: 'Get a forward',
    responses: { 200: { description: 'The forward', data: forward, etag: ETAG } },
    errors: ['NOT_FOUND'],
  }),
  update: defineOperation({
    id: 'updateForward',
    method: 'PATCH',
    path: `${path}/{name}`,
    right: 'change_registry',
    tag,
    summary: 'Change a forward',
    description:
      'A JSON merge patch: missing members stay unchanged. Overrides, renames, moves and marks of its entries are retained. Rejected with the names that are in use in the new namespace or with the new prefix, and if `If-Match` is not the current `ETag`. Waits up to 30 s for the discovery of a new address or with new headers.',
    body: { kind: 'forward change', schema: forwardPatch },
    responses: { 200: { description: 'Changed forward', data: forward, etag: ETAG } },
    errors: ['NOT_FOUND', 'CONFLICT', 'UNPROCESSABLE'],
  }),
  remove: defineOperation({
    id: 'deleteForward',
    method: 'DELETE',
    path: `${path}/{name}`,
    right: 'change_registry',
    tag,
    summary: 'Delete a forward and its discovered entries',
    description: 'Deletes the overrides and marks of its entries as well. In-flight calls finish.',
    responses: { 200: { description: 'Name of the deleted forward', data: deleteResult } },
    errors: ['NOT_FOUND'],
  }),
  refresh: defineOperation({
    id: 'refreshForward',
    method: 'POST',
    path: `${path}/{name}/refreshes`,
    right: 'change_registry',
    tag,
    summary: 'Refresh a forward',
    description: 'Repeats discovery. If it fails, the previously discovered entries remain.',
    responses: { 200: { description: 'Numbers of discovered entries', data: refreshResult } },
    errors: ['NOT_FOUND', 'BAD_GATEWAY'],
  }),
  test: defineOperation({
    id: 'testForward',
    method: 'POST',
    path: `${path}/test`,
    right: 'change_registry',
    tag,
    summary: 'Test the connection to an upstream step by step',
    description:
      'Resolves its host, connects, and reads its lists, for at most 5 s per step and 30 s in all. Stops at the first step that fails. Executes no tool, registers nothing and closes its sessions. Only one run at a time.',
    body: { kind: 'forward test', schema: forwardTestInput },
    responses: { 200: { description: 'All steps, also if one failed', data: forwardTest } },
    errors: ['NOT_FOUND', 'UNPROCESSABLE', 'UNAVAILABLE'],
  }),
  history: defineOperation({
    id: 'getForwardHistory',
    method: 'GET',
    path: `${path}/{name}/history`,
    right: 'read',
    tag,
    summary: 'List changes of availability and discoveries of a forward',
    description: `Since the start of the process: the latest ${FORWARD_HISTORY_CAPACITY}, fewer of each of more than 100 forwards.`,
    responses: { 200: { description: 'Changes, newest first', data: z.array(forwardChange) } },
    errors: ['NOT_FOUND'],
  }),
};
