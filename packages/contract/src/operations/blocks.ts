import { z } from 'zod';
import { block, blockInput } from '../schemas/blocks.ts';
import { deleteResult } from '../schemas/envelope.ts';
import { defineOperation } from './operation.ts';

const tag = 'blocks';
const path = '/api/v1/blocks';
const pathParameter = z.string().describe('Id of a principal or key, or `forward:` and the name of a forward.');

/** `/api/v1/blocks`: principals, keys and forwards that are blocked. Those of forwards require less. */
export const blockOperations = {
  list: defineOperation({
    id: 'listBlocks',
    method: 'GET',
    path,
    right: 'read',
    tag,
    summary: 'List blocks',
    description: 'Without the right `read_bodies`, the list has forwards only.',
    responses: { 200: { description: 'Blocks in force, by id', data: z.array(block) } },
    errors: [],
  }),
  get: defineOperation({
    id: 'getBlock',
    method: 'GET',
    path: `${path}/{id}`,
    right: 'read',
    pathParameter,
    tag,
    summary: 'Get a block',
    description: 'Without the right `read_bodies`, those of principals and keys are not found.',
    responses: { 200: { description: 'The block', data: block } },
    errors: ['NOT_FOUND'],
  }),
  set: defineOperation({
    id: 'setBlock',
    method: 'PUT',
    path: `${path}/{id}`,
    right: 'change_registry',
    pathParameter,
    tag,
    summary: 'Block a principal, key or forward',
    description:
      'Principals, by id whatever their kind, and keys require the right `administer`. Their requests get 401 on every listener; their sessions, streams, suspended calls, tasks and calls in flight end, also upstream. A blocked forward is unknown to clients, and calls to it end. The response is sent when that has happened at all live replicas. Repeating it replaces end and reason. Whoever blocks himself gets `CONFLICT`, unless `lock_out` allows it; `UNPROCESSABLE`: there is no such forward. The body is optional.',
    query: { lock_out: { description: '`allow` also blocks the caller.', values: ['allow'] } },
    body: { kind: 'block', schema: blockInput, optional: true },
    responses: { 200: { description: 'The block', data: block } },
    errors: ['CONFLICT', 'UNPROCESSABLE'],
  }),
  remove: defineOperation({
    id: 'removeBlock',
    method: 'DELETE',
    path: `${path}/{id}`,
    right: 'change_registry',
    pathParameter,
    tag,
    summary: 'Unblock a principal, key or forward',
    description:
      'Without the right `administer`, principals and keys are not found. Sessions that were opened before do not continue: their clients initialize again.',
    responses: { 200: { description: 'Id of the removed block', data: deleteResult } },
    errors: ['NOT_FOUND'],
  }),
};
