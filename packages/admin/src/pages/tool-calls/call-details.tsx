import { Button, SkeletonText } from '@carbon/react';
import { unwrap } from '@sluice/contract/client';
import { isTerminal } from '@sluice/protocol/mcp/tasks';
import type { ReactNode } from 'react';
import { useLiveTasks } from '../../api/live-queries.ts';
import { type Task, useApiQuery } from '../../api/queries.ts';
import { type LoggedCall, latestEvent, STATE_NAMES, stateOf } from '../../api/tool-call-log.ts';
import { InertText } from '../../ui/inert-text.tsx';
import { JsonView } from '../../ui/json-view.tsx';
import { DetailsModal } from '../../ui/modal.tsx';
import { ErrorNotice } from '../../ui/notices.tsx';

interface CallDetailsProps {
  readonly call: LoggedCall;
  /** All known calls, newest first. */
  readonly calls: readonly LoggedCall[];
  readonly onOpen: (id: string) => void;
  readonly onClose: () => void;
}

/** One tool call: what led to it, what it passed, where the time went, and what came of it. */
export function CallDetails({ call, calls, onOpen, onClose }: CallDetailsProps) {
  const event = latestEvent(call);
  if (!event) return null;
  const { started, ended } = call;
  const { conversationId } = event;
  const inConversation =
    conversationId === undefined
      ? []
      : calls.filter((other) => latestEvent(other)?.conversationId === conversationId).toReversed();
  return (
    <DetailsModal heading={event.toolName} label={`Tool call in ${event.namespace}`} onClose={onClose}>
      <dl className="facts">
        <Fact label="Outcome">{STATE_NAMES[stateOf(call)]}</Fact>
        <Fact label="Time">{(started ?? event).timestamp}</Fact>
        <Fact label="Executed by">
          <InertText text={[event.forward ?? event.serviceId, event.serviceAddress].filter(Boolean).join(' at ')} />
        </Fact>
        {event.user !== undefined && (
          <Fact label="User">
            <InertText text={event.user} />
          </Fact>
        )}
        {event.via !== undefined && <Fact label="Made through">{event.via}</Fact>}
        {started && <Fact label="Arguments">{argumentsOf(started)}</Fact>}
        {ended?.eventType === 'FAILED' && (
          <Fact label={ended.errorCategory}>
            <InertText
              text={ended.evaluator === undefined ? ended.errorMessage : `${ended.evaluator}: ${ended.errorMessage}`}
            />
          </Fact>
        )}
      </dl>
      <h3 className="section-title">Where the time went</h3>
      <Waterfall call={call} />
      {conversationId !== undefined && (
        <>
          <h3 className="section-title">Conversation</h3>
          <Completions conversation={conversationId} />
          <ul className="conversation-calls">
            {inConversation.map((other) => (
              <li key={other.id}>
                <Button kind="ghost" size="sm" disabled={other.id === call.id} onClick={() => onOpen(other.id)}>
                  <InertText text={`${latestEvent(other)?.toolName}: ${STATE_NAMES[stateOf(other)]}`} maxLength={100} />
                </Button>
              </li>
            ))}
          </ul>
        </>
      )}
      {ended?.eventType === 'COMPLETED' && (
        <>
          <h3 className="section-title">{ended.contentTruncated ? 'Result, beginning' : 'Result'}</h3>
          <JsonView label="Result" value={ended.content} />
        </>
      )}
      <h3 className="section-title">Events</h3>
      <JsonView label="Events" value={[started, ended].filter(Boolean)} />
    </DetailsModal>
  );
}

function Fact({ label, children }: { readonly label: string; readonly children: ReactNode }) {
  return (
    <>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </>
  );
}

function argumentsOf({ argumentNames, argumentCount }: NonNullable<LoggedCall['started']>): ReactNode {
  if (argumentNames === undefined) return `${argumentCount}, without names`;
  return argumentNames.length === 0 ? 'none' : <InertText text={argumentNames.join(', ')} />;
}

type TaskStates = readonly Pick<Task['states'][number], 'status' | 'timestamp'>[];

/** The task that continues a call: of its last event or, while it runs, as the service knows it. */
function useTaskOf({ id, ended }: LoggedCall): { readonly states: TaskStates } | undefined {
  useLiveTasks();
  const { data } = useApiQuery(['tasks', 'of', id, ended ? 'ended' : 'running'], async (client, signal) => {
    if (ended) return null;
    const query = { eventId: id, state: 'all' as const };
    const [task] = await unwrap(client.GET('/api/v1/tasks', { params: { query }, signal }));
    return task ?? null;
  });
  return ended ? ended.task : (data ?? undefined);
}

/** The steps of the call itself: its request, and the states of the task that continued it. */
function callSteps({ started, ended }: LoggedCall, label: string, states: TaskStates) {
  const [first] = states;
  if (!started || !first) return ended && ended.duration > 0 ? [{ label, duration: ended.duration }] : [];
  const end = ended ? Date.parse(started.timestamp) + ended.duration : Date.now();
  const starts = [...states.map(({ timestamp }) => Date.parse(timestamp)), end];
  const inStates = states.map(({ status }, at) => ({
    label: `task: ${status}`,
    duration: Math.max(0, (starts[at + 1] ?? end) - (starts[at] ?? end)),
  }));
  // The last state is no step if it is the end.
  const last = states.at(-1);
  return [
    { label, duration: Date.parse(first.timestamp) - Date.parse(started.timestamp) },
    ...(ended && last && isTerminal(last.status) ? inStates.slice(0, -1) : inStates),
  ];
}

/** Evaluators one after the other, then the call itself and the states of its task, on one scale. */
function Waterfall({ call }: { readonly call: LoggedCall }) {
  const event = latestEvent(call);
  const task = useTaskOf(call);
  const evaluations = event?.evaluations ?? [];
  const steps = [
    ...evaluations.map(({ evaluator, verdict, duration }) => ({ label: `${evaluator}: ${verdict}`, duration })),
    ...callSteps(call, event?.forward ?? 'call', task?.states ?? []),
  ];
  const total = steps.reduce((sum, { duration }) => sum + duration, 0);
  if (steps.length === 0) return <p>{call.ended ? 'The call was not sent.' : 'The call is running.'}</p>;
  let before = 0;
  return (
    <ol className="waterfall" aria-label="Duration of each step">
      {steps.map(({ label, duration }, at) => {
        const start = total === 0 ? 0 : before / total;
        before += duration;
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: steps have no other identity
          <li key={at}>
            <span className="waterfall-label">
              <InertText text={label} maxLength={60} />
            </span>
            <span className="waterfall-track">
              <span
                className="waterfall-bar"
                style={{
                  marginInlineStart: `${100 * start}%`,
                  inlineSize: `${total === 0 ? 0 : (100 * duration) / total}%`,
                }}
              />
            </span>
            <span className="waterfall-time">{`${Math.round(duration * 10) / 10} ms`}</span>
          </li>
        );
      })}
    </ol>
  );
}

/** The completions of the conversation: one of them may have requested the call. */
function Completions({ conversation }: { readonly conversation: string }) {
  const { data, error } = useApiQuery(['other', 'completions', conversation], (client, signal) => {
    const query = { conversation_id: conversation, bodies: 'false' as const, limit: '10' };
    return unwrap(client.GET('/api/v1/interactions', { params: { query }, signal }));
  });
  if (error && !data) return <ErrorNotice title="The completions could not be loaded" error={error} />;
  if (!data) return <SkeletonText />;
  if (data.length === 0) return <p>No recorded completion has this conversation.</p>;
  return (
    <ul>
      {data.map(({ epoch_ms, model, completion_id, duration_ms }) => (
        <li key={`${epoch_ms} ${completion_id}`}>
          {new Date(epoch_ms).toLocaleTimeString()} <InertText text={model ?? 'completion'} maxLength={60} />,{' '}
          {Math.round(duration_ms)} ms
        </li>
      ))}
    </ul>
  );
}
