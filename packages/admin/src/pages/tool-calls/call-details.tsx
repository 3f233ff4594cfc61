import { Button, SkeletonText } from '@carbon/react';
import { unwrap } from '@sluice/contract/client';
import type { ReactNode } from 'react';
import { useApiQuery } from '../../api/queries.ts';
import { type LoggedCall, latestEvent, outcomeOf } from '../../api/tool-call-log.ts';
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
        <Fact label="Outcome">{outcomeOf(call)}</Fact>
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
                  <InertText text={`${latestEvent(other)?.toolName}: ${outcomeOf(other)}`} maxLength={100} />
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

/** Evaluators one after the other, then the call itself, on one scale. */
function Waterfall({ call }: { readonly call: LoggedCall }) {
  const event = latestEvent(call);
  const evaluations = event?.evaluations ?? [];
  const steps = [
    ...evaluations.map(({ evaluator, verdict, duration }) => ({ label: `${evaluator}: ${verdict}`, duration })),
    ...(call.ended && call.ended.duration > 0
      ? [{ label: event?.forward ?? 'call', duration: call.ended.duration }]
      : []),
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
