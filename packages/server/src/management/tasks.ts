import { operations, type Task, type TaskFilter, taskFilter } from '@sluice/contract';
import { OperationError } from '../registry/operation-error.ts';
import type { Task as KnownTask } from '../upstreams/mcp/tasks/task.ts';
import { isInternal, isOpen, statusOf, type TaskRecord } from '../upstreams/mcp/tasks/task-record.ts';
import type { ManagementContext } from './context.ts';
import { pagedResponse } from './paging.ts';
import { dataResponse } from './responses.ts';
import type { Router } from './router.ts';

/** `/api/v1/tasks`: long calls (docs/tasks.md). Neither their arguments nor their results, which are not stored. */
export function taskRoutes(router: Router, { tasks, cancelTask }: ManagementContext): void {
  const { list, get, cancel } = operations.tasks;

  router.add(list, ({ query }) => {
    const filter = taskFilter.options.find((known) => known === query('state')) ?? 'open';
    const [namespace, forward, tool, user] = [query('namespace'), query('forward'), query('tool'), query('user')];
    const eventId = query('eventId');
    const isSelected = (record: TaskRecord): boolean =>
      matches(record, filter) &&
      (namespace === undefined || record.namespace === namespace) &&
      (forward === undefined || record.forward === forward) &&
      (tool === undefined || record.tool.key === tool) &&
      (user === undefined || record.principal.id === user) &&
      (eventId === undefined || record.eventId === eventId);
    return pagedResponse(
      tasks
        .all()
        .map(({ record }) => record)
        .filter(isSelected),
      {
        place: ({ created }) => [created],
        key: ({ id }) => id,
        texts: ({ id, tool, forward: of = '', principal: by, statusMessage = '' }) => [
          id,
          tool.key,
          of,
          by.id,
          statusMessage,
        ],
        serialize: (record) => JSON.stringify(taskBody(record)),
      },
      query,
    );
  });

  router.add(get, ({ name }) => dataResponse(JSON.stringify(taskBody(find(name).record))));

  router.add(cancel, async ({ name }) => {
    const task = find(name);
    const status = statusOf(task.record);
    if (status !== 'cancelled') {
      if (!isOpen(task.record)) throw new OperationError('CONFLICT', `task ${name} has ended: ${status}`);
      await cancelTask(task);
    }
    // It may be gone with its forward.
    return dataResponse(JSON.stringify({ ...taskBody(task.record), status: 'cancelled' }));
  });

  function find(id: string): KnownTask {
    const task = tasks.get(id);
    if (!task) throw new OperationError('NOT_FOUND', `task not found: ${id}`);
    return task;
  }
}

function matches(record: TaskRecord, filter: TaskFilter): boolean {
  if (filter === 'all') return true;
  if (filter === 'open' || filter === 'ended') return isOpen(record) === (filter === 'open');
  return statusOf(record) === filter;
}

function taskBody(record: TaskRecord): Task {
  const { kind, tool, forward, principal, statusMessage, eventId, states } = record;
  return {
    id: record.id,
    namespace: record.namespace,
    tool: tool.key,
    ...(forward !== undefined && { forward }),
    ...(principal.id !== '' && { user: principal.id }),
    kind,
    ...(isInternal(record) && { internal: true as const }),
    status: statusOf(record),
    ...(statusMessage !== undefined && { statusMessage }),
    states: states.map(({ status, at }) => ({ status, timestamp: time(at) })),
    createdAt: time(record.created),
    lastUpdatedAt: time(states.at(-1)?.at ?? record.created),
    expiresAt: time(record.expires),
    ...(eventId !== undefined && { eventId }),
  };
}

function time(at: number): string {
  return new Date(at).toISOString();
}
