import { SkeletonText } from '@carbon/react';
import { unwrap } from '@sluice/contract/client';
import { useApiQuery } from '../../api/queries.ts';
import { STATE_NAMES } from '../../api/tool-call-log.ts';
import { InertText } from '../../ui/inert-text.tsx';
import { JsonView } from '../../ui/json-view.tsx';
import { DetailsModal } from '../../ui/modal.tsx';
import { ErrorNotice } from '../../ui/notices.tsx';
import { routeTo } from '../../ui/route.ts';
import type { Interaction } from './interactions.tsx';

interface InteractionDetailsProps {
  readonly interaction: Interaction;
  readonly onClose: () => void;
}

/** One message as it is shown. */
interface ShownMessage {
  readonly role: string;
  readonly text: string;
}

/** One completion as a conversation and raw, with the tool calls that belong to it. */
export function InteractionDetails({ interaction, onClose }: InteractionDetailsProps) {
  const { conversation_id, completion_id, model = 'Completion', epoch_ms } = interaction;
  const { data, error } = useApiQuery(
    ['other', 'interaction', `${epoch_ms} ${completion_id}`],
    async (client, signal) => {
      const query = {
        ...(conversation_id !== undefined && { conversation_id }),
        ...(completion_id !== undefined && { completion_id }),
      };
      const found = await unwrap(client.GET('/api/v1/interactions', { params: { query }, signal }));
      return found.find((each) => each.epoch_ms === epoch_ms) ?? null;
    },
  );
  return (
    <DetailsModal heading={model} label={new Date(epoch_ms).toLocaleString()} onClose={onClose}>
      {error && <ErrorNotice title="The interaction could not be loaded" error={error} />}
      {data === undefined && !error && <SkeletonText paragraph lineCount={4} />}
      {data === null && <p>The interaction is no longer stored.</p>}
      {data && (
        <>
          <h3 className="section-title">Conversation</h3>
          <ol className="messages">
            {[...requestMessages(data.request_body), ...responseMessages(data.response_body)].map(
              ({ role, text }, at) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: messages have no other identity
                <li key={at}>
                  <strong>{role}</strong>
                  <p className="text-content">
                    <InertText text={text} maxLength={20_000} />
                  </p>
                </li>
              ),
            )}
          </ol>
          <ToolCalls ids={[completion_id, conversation_id]} />
          <h3 className="section-title">Request</h3>
          <JsonView label="Request" value={data.request_body} />
          <h3 className="section-title">Response</h3>
          <JsonView label="Response" value={data.response_body} />
        </>
      )}
    </DetailsModal>
  );
}

/** The stored tool calls that carry one of the ids of the completion. */
function ToolCalls({ ids }: { readonly ids: readonly (string | undefined)[] }) {
  const { data } = useApiQuery(['other', 'tool-calls'], (client, signal) =>
    unwrap(client.GET('/api/v1/tool-calls', { params: { query: { limit: '1000' } }, signal })),
  );
  const calls = data
    ?.filter((event) => event.eventType !== 'STARTED')
    .filter(({ conversationId, requestId }) =>
      ids.some((id) => id !== undefined && (id === conversationId || id === requestId)),
    );
  if (!calls || calls.length === 0) return null;
  return (
    <>
      <h3 className="section-title">Tool calls</h3>
      <ul className="conversation-calls">
        {calls.toReversed().map(({ eventId, toolName, outcome }) => (
          <li key={eventId}>
            <a href={routeTo('/tool-calls', { open: eventId })}>
              <InertText text={`${toolName}: ${STATE_NAMES[outcome]}`} maxLength={100} />
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}

function requestMessages(body: unknown): ShownMessage[] {
  const messages = memberOf(body, 'messages');
  return Array.isArray(messages) ? messages.map(toMessage) : [];
}

function responseMessages(body: unknown): ShownMessage[] {
  const choices = memberOf(body, 'choices');
  return Array.isArray(choices) ? choices.map((choice) => toMessage(memberOf(choice, 'message'))) : [];
}

function toMessage(message: unknown): ShownMessage {
  const content = memberOf(message, 'content');
  const calls = memberOf(message, 'tool_calls');
  const texts = Array.isArray(content) ? content.map((part) => memberOf(part, 'text') ?? part) : [content];
  const shown = [...texts, ...(Array.isArray(calls) ? calls.map((call) => memberOf(call, 'function') ?? call) : [])]
    .filter((part) => part !== undefined && part !== null && part !== '')
    .map((part) => (typeof part === 'string' ? part : JSON.stringify(part, null, 2)));
  return { role: String(memberOf(message, 'role') ?? 'unknown'), text: shown.join('\n') };
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && name in value ? Reflect.get(value, name) : undefined;
}
