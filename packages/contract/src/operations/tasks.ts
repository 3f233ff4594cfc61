import { z } from 'zod';
import { task, taskFilter } from '../schemas/tasks.ts';
import { defineOperation, PAGE_QUERY } from './operation.ts';

const tag = 'tasks';
const path = '/api/v1/tasks';

/** `/api/v1/tasks`: long calls (docs/tasks.md). */
export const taskOperations = {
  list: defineOperation({
    id: 'listTasks',
    method: 'GET',
    path,
    right: 'read',
    tag,
    summary: 'List tasks',
    description: 'Open tasks by default; select others with `state`. Replicas share them.',
    query: {
      namespace: { description: 'Filter by namespace.' },
      forward: { description: 'Filter by forward.' },
      tool: { description: 'Filter by name of the called tool.' },
      user: { description: 'Filter by user.' },
      eventId: { description: 'Filter by the id of the tool-call events of the call.' },
      state: {
        description: `Filter by state: ${taskFilter.options.map((value) => `\`${value}\``).join(', ')}. Default: \`open\`.`,
        values: taskFilter.options,
      },
      ...PAGE_QUERY,
      q: { description: 'Filter by a part of the id, tool, forward, user or status message, in any case.' },
    },
    responses: { 200: { description: 'Tasks, oldest first', data: z.array(task), paged: true } },
    errors: [],
  }),
  get: defineOperation({
    id: 'getTask',
    method: 'GET',
    path: `${path}/{id}`,
    right: 'read',
    tag,
    summary: 'Get a task',
    responses: { 200: { description: 'The task', data: task } },
    errors: ['NOT_FOUND'],
  }),
  cancel: defineOperation({
    id: 'cancelTask',
    method: 'POST',
    path: `${path}/{id}/cancel`,
    right: 'administer',
    tag,
    summary: 'Cancel a task',
    description:
      'Cancels the task at its upstream, which may still complete it. Canceling it again has no effect; a task that has ended otherwise is a conflict.',
    responses: { 200: { description: 'The canceled task', data: task } },
    errors: ['NOT_FOUND', 'CONFLICT', 'BAD_GATEWAY'],
  }),
};
