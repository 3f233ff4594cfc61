import { TASK_STATUSES } from '@sluice/protocol/mcp/tasks';
import { z } from 'zod';
import { TASK_FILTERS } from '../values.ts';

/** Status of a task, in the words of MCP. */
export const taskStatus = z.enum(TASK_STATUSES);

/** Filter of tasks: open, ended, all, or one status. */
export const taskFilter = z.enum(TASK_FILTERS);

const time = z.iso.datetime({ precision: 3 }).describe('UTC');

/** A status that a task had, and since when. */
export const taskState = z.object({ status: taskStatus, timestamp: time });

/** How the end of a task became known. */
export const taskEnd = z.enum(['polled', 'notified', 'returned', 'cancelled', 'expired', 'discarded']);

/** A task that clients know, without its arguments and its result (docs/tasks.md). */
export const task = z
  .object({
    id: z.string().describe('Id under which the client knows the task'),
    namespace: z.string(),
    tool: z.string().describe('Name of the called tool'),
    forward: z.string().optional().describe('Forward that executes the task'),
    user: z.string().optional().describe('User reported by the authenticating proxy'),
    kind: z
      .enum(['core', 'extension', 'call'])
      .describe('`core`: a task of 2025-11-25; `extension`: one of the extension; `call`: a call that became a task'),
    internal: z
      .literal(true)
      .optional()
      .describe('Belongs to the call of a client that does not support tasks, which waits for it'),
    status: taskStatus,
    statusMessage: z.string().optional().describe('Of the upstream, at most 1000 characters'),
    states: z.array(taskState).describe('The latest states that became known, oldest first'),
    createdAt: time,
    lastUpdatedAt: time.describe('When its upstream last reported another state'),
    expiresAt: time.describe('When it is removed, whatever its state'),
    eventId: z.string().optional().describe('Id of the tool-call events of its call'),
  })
  .meta({ id: 'Task', description: 'A long call: the client polls its state and, at the end, its result.' });

/** Data of a `tasks` event. */
export const taskEvent = z
  .object({
    timestamp: time,
    id: z.string(),
    namespace: z.string(),
    tool: z.string(),
    forward: z.string().optional(),
    status: taskStatus,
    statusMessage: z.string().optional().describe('Of the upstream, at most 1000 characters'),
    end: taskEnd.optional().describe('How its end became known, once it has ended'),
    eventId: z.string().optional().describe('Id of the tool-call events of its call'),
  })
  .meta({ id: 'TaskEvent', description: 'A task was created, has another status, or has ended.' });

export type TaskFilter = z.infer<typeof taskFilter>;
export type TaskEnd = z.infer<typeof taskEnd>;
export type Task = z.infer<typeof task>;
export type TaskEvent = z.infer<typeof taskEvent>;
