import type { TaskEnd } from '@sluice/contract';
import { isTerminal } from '@sluice/protocol/mcp/tasks';
import { type EventTask, NO_EVALUATIONS } from '../../../exchange/facts.ts';
import { CallObserver, type StoredCall, type ToolCallRecorder } from '../../../telemetry/call-observer.ts';
import type { StateEvents } from '../../../telemetry/state-events.ts';
import { CANCELED, NO_CONTENT, type ToolCallIdentity, userOf } from '../../../telemetry/tool-calls/event.ts';
import type { Tracing } from '../../../telemetry/tracing/tracing.ts';
import type { EndedTask } from './task.ts';
import { statusOf, type TaskRecord } from './task-record.ts';
import type { Tasks } from './tasks.ts';

/** How a task ended, for metrics. */
export type TaskOutcome = 'completed' | 'failed' | 'cancelled' | 'expired' | 'discarded';

export interface TaskEventsOptions {
  readonly tasks: Pick<Tasks, 'created' | 'changed' | 'ended'>;
  readonly toolCalls: ToolCallRecorder;
  readonly stateEvents: Pick<StateEvents, 'publish'>;
  /** Undefined if no traces are exported. */
  readonly tracing: Pick<Tracing, 'begin'> | undefined;
}

/** Why a call has no result, if its task ended without one. */
const WITHOUT_RESULT: Readonly<Partial<Record<TaskEnd, string>>> = {
  cancelled: 'the task was canceled',
  expired: 'the task expired before its end was known',
  discarded: 'the task was removed before its end was known',
};

/** Reports tasks: the last event of the call that each continues, `tasks` events, metrics, and a span in the call's trace. */
export class TaskEvents {
  /** Number of tasks whose end became known here. */
  readonly ended: Record<TaskOutcome, number> = { completed: 0, failed: 0, cancelled: 0, expired: 0, discarded: 0 };
  readonly #options: TaskEventsOptions;

  constructor(options: TaskEventsOptions) {
    this.#options = options;
    const { tasks } = options;
    tasks.created.subscribe((record) => this.#publish(record));
    tasks.changed.subscribe((record) => this.#publish(record));
    tasks.ended.subscribe((ended) => this.#end(ended));
  }

  #end({ record, by, content = {} }: EndedTask): void {
    const outcome = outcomeOf(record, by);
    this.ended[outcome]++;
    this.#publish(record, by);
    const observer = this.observerOf(record);
    const task = () => eventTaskOf(record, by);
    observer.task = task;
    const reason = WITHOUT_RESULT[by];
    if (reason === undefined && (content.result ?? content.error) !== undefined) observer.responded(content);
    else if (outcome === 'completed') observer.completed(false, NO_CONTENT);
    else {
      const message = reason ?? record.statusMessage ?? `the task has the status ${outcome}`;
      observer.failed('UNKNOWN', message, outcome === 'cancelled' ? CANCELED : '_OTHER');
    }
    this.#trace(record, outcome);
  }

  /** Observes the call of a record for its client, which another process has begun. */
  observerOf(record: TaskRecord): CallObserver {
    const { eventId, call } = record;
    if (!call || eventId === undefined) return new CallObserver();
    const startedAt = Math.min(call.startedAt, Date.now());
    const tool = { eventId, events: this.#options.toolCalls, identity: identityOf(record, call), startedAt };
    return new CallObserver(undefined, undefined, tool);
  }

  #publish(record: TaskRecord, end?: TaskEnd): void {
    const { id, namespace, tool, forward, statusMessage, eventId } = record;
    const known = { id, namespace, tool: tool.key, forward, status: statusOf(record), statusMessage, end, eventId };
    this.#options.stateEvents.publish('tasks', { timestamp: new Date().toISOString(), ...known });
  }

  /** A span from the creation of the task to its end, below that of the request that created it. */
  #trace(record: TaskRecord, outcome: TaskOutcome): void {
    const { tracing } = this.#options;
    const { tool, created, call: { trace } = {} } = record;
    if (!tracing || !trace) return;
    const startedAt = created - performance.timeOrigin;
    const parent = { ...trace, state: trace.state };
    const span = tracing.begin({ name: `task ${tool.key}`, role: 'internal', startedAt }, parent);
    span.attributes['gen_ai.tool.name'] = tool.key;
    span.attributes['sluice.task.outcome'] = outcome;
    if (outcome !== 'completed') span.failed(outcome);
    span.end();
  }
}

/** The task in the last event of its call. */
export function eventTaskOf({ id, states }: TaskRecord, end?: TaskEnd): EventTask {
  return { id, end, states };
}

function identityOf(record: TaskRecord, call: StoredCall): ToolCallIdentity {
  const { namespace, tool, forward, address, principal } = record;
  const { toolType, conversationId, requestId, via, trace } = call;
  const correlation = { conversationId, requestId, via };
  const known = { namespace, toolName: tool.key, toolType, forward, correlation };
  const service = { address: new URL(address).origin };
  const more = { traceId: trace?.traceId, user: userOf(principal), evaluations: NO_EVALUATIONS };
  return { transport: 'mcp', ...known, service, ...more };
}

function outcomeOf(record: TaskRecord, by: TaskEnd): TaskOutcome {
  if (by === 'cancelled' || by === 'expired' || by === 'discarded') return by;
  const status = statusOf(record);
  return isTerminal(status) ? status : 'completed';
}
