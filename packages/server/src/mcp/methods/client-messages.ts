import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import type { NotificationMessage, ResponseMessage } from '@sluice/protocol/mcp/message';
import { paramText } from '@sluice/protocol/mcp/message-text';
import { UpstreamError } from '../../http/client/errors.ts';
import type { InFlightCalls } from '../../upstreams/in-flight-calls.ts';
import type { SessionBindings } from '../../upstreams/mcp/sessions/session-bindings.ts';
import type { UpstreamHeaders } from '../../upstreams/upstream-headers.ts';
import type { McpExchange, McpOutcome } from '../exchange.ts';
import type { ClientSession } from '../sessions/sessions.ts';

/** Dependencies of {@link handleNotification}. */
interface NotificationParts {
  readonly calls: Pick<InFlightCalls, 'ofRequest'>;
  readonly sessionBindings: SessionBindings;
  readonly upstreamHeaders: UpstreamHeaders;
}

const ACCEPTED: McpOutcome = { kind: 'plain', status: 202 };

/**
 * Prefix of all forwarded notifications. A request without an id would bypass every evaluator, and an upstream that
 * ignores the missing id would execute it.
 */
const NOTIFICATIONS = 'notifications/';

/** Notifications that are not forwarded: upstreams have sessions of their own, and all others may only be sent by servers. */
const NOT_FORWARDED: ReadonlySet<string> = new Set([
  'notifications/initialized',
  'notifications/message',
  'notifications/tools/list_changed',
  'notifications/resources/list_changed',
  'notifications/resources/updated',
  'notifications/prompts/list_changed',
  'notifications/elicitation/complete',
  'notifications/subscriptions/acknowledged',
]);

/**
 * The client's response to a server request: accepted once the upstream has it. A response to no pending request is
 * not an error.
 */
export async function handleResponse(
  session: ClientSession | undefined,
  message: ResponseMessage,
): Promise<McpOutcome> {
  try {
    await session?.active?.deliverResponse(message);
    return ACCEPTED;
  } catch (error) {
    const reason = error instanceof UpstreamError ? error.message : 'internal error';
    const response = `the response could not be forwarded: ${reason}`;
    return { kind: 'error', error: { code: INTERNAL_ERROR, message: response }, status: 502, idText: 'null' };
  }
}

/** Notifications have no response. Those of a client without a session are ignored. */
export function handleNotification(
  { session, headers }: McpExchange,
  message: NotificationMessage,
  parts: NotificationParts,
): McpOutcome {
  if (!session) return ACCEPTED;
  const { calls, sessionBindings, upstreamHeaders } = parts;
  switch (message.method) {
    case 'notifications/cancelled': {
      const requestId = paramText(message.text, 'requestId');
      if (requestId !== undefined) calls.ofRequest(session.id, requestId)?.cancel(message);
      break;
    }
    case 'notifications/progress': {
      const token = paramText(message.text, 'progressToken');
      if (token !== undefined) session.active?.serverRequest(token)?.onProgress(message.text);
      break;
    }
    default: {
      if (NOT_FORWARDED.has(message.method) || !message.method.startsWith(NOTIFICATIONS)) break;
      const own = upstreamHeaders(headers);
      if (own) sessionBindings.forwardNotification(session, own, message.text);
    }
  }
  return ACCEPTED;
}
