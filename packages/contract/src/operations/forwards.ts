import { z } from 'zod';
import { forward, forwardInput, refreshed } from '../forward.ts';
import { removed } from '../removed.ts';
import { operation } from './operation.ts';

const tag = 'forwards';
const path = '/api/v1/forwards';

/** `/api/v1/forwards` (specification, "Endpoints"; decisions 2.4, 4.3). */
export const forwardOperations = {
  list: operation({
    id: 'listForwards',
    method: 'GET',
    path,
    tag,
    summary: 'List the forwards',
    query: { namespace: { description: 'Only forwards of this namespace.' } },
    answers: { 200: { description: 'The forwards, in order of registration.', data: z.array(forward) } },
    failures: [],
  }),
  create: operation({
    id: 'createForward',
    method: 'POST',
    path,
    tag,
    summary: 'Register an upstream MCP server and discover what it offers',
    description:
      'An upstream that is down, or that takes more than 30 s, is registered all the same with `available: false`; its discovery goes on in the background.',
    body: { kind: 'forward', schema: forwardInput },
    answers: { 201: { description: 'The forward, with what was discovered.', data: forward, location: true } },
    failures: ['CONFLICT'],
  }),
  get: operation({
    id: 'getForward',
    method: 'GET',
    path: `${path}/{name}`,
    tag,
    summary: 'Read one forward',
    answers: { 200: { description: 'The forward.', data: forward } },
    failures: ['NOT_FOUND'],
  }),
  remove: operation({
    id: 'deleteForward',
    method: 'DELETE',
    path: `${path}/{name}`,
    tag,
    summary: 'Delete a forward with all that it discovered',
    description: 'Calls in flight finish. A forward is changed by deleting it and registering it anew.',
    answers: { 200: { description: 'Its name.', data: removed } },
    failures: ['NOT_FOUND'],
  }),
  refresh: operation({
    id: 'refreshForward',
    method: 'POST',
    path: `${path}/{name}/refreshes`,
    tag,
    summary: 'Discover again what a forward offers',
    description: 'When that fails, what was known before stays.',
    answers: { 200: { description: 'What it offers now.', data: refreshed } },
    failures: ['NOT_FOUND', 'BAD_GATEWAY'],
  }),
};
