import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { type NotificationMessage, paramText, type ResponseMessage } from '@sluice/protocol/mcp/message';
import type { Outcome } from '../../answer/outcome.ts';
import type { CallUnderWay } from '../../forwards/call-under-way.ts';
import type { CallsUnderWay } from '../../forwards/calls-under-way.ts';
import type { CallRelay } from '../../forwards/relay.ts';
import type { SessionLinks } from '../../forwards/session-links.ts';
import type { LiveSessions } from '../../sessions/live-sessions.ts';
import type { ClientSession } from '../../sessions/sessions.ts';
import { UpstreamError } from '../../transport/upstream-error.ts';
import type { RequestContext } from '../context.ts';

/** What a legacy client's messages that are no requests go to. */
export interface ClientMessageParts {
  readonly lives: LiveSessions;
  readonly calls: Pick<CallsUnderWay<CallUnderWay>, 'find'>;
  readonly sessionLinks: SessionLinks;
  readonly relay: Pick<CallRelay, 'upstreamHeaders'>;
}

/**
 * What all of them are called that are passed on. A request without an id would get by everything that judges requests,
 * and an upstream that does not miss the id would carry it out.
 */
const NOTIFICATIONS = 'notifications/';

const ACCEPTED: Outcome = { kind: 'plain', status: 202 };

/** Notifications that only servers send: an upstream would hear from a client what it alone can know. */
const SERVERS_ONLY: ReadonlySet<string> = new Set([
  'notifications/message',
  'notifications/tools/list_changed',
  'notifications/resources/list_changed',
  'notifications/resources/updated',
  'notifications/prompts/list_changed',
  'notifications/elicitation/complete',
  'notifications/subscriptions/acknowledged',
]);

/** The client's answer to a question: taken when the upstream that asked has it. One that nobody waits for is no error. */
export async function answered(
  session: ClientSession | undefined,
  message: ResponseMessage,
  { lives }: ClientMessageParts,
): Promise<Outcome> {
  try {
    await (session && lives.find(session.id)?.answer(message));
    return ACCEPTED;
  } catch (error) {
    const reason = error instanceof UpstreamError ? error.message : 'internal error';
    const answer = `the answer could not be passed on: ${reason}`;
    return { kind: 'error', error: { code: INTERNAL_ERROR, message: answer }, status: 502, idText: 'null' };
  }
}

/** Notifications are never answered. What a client without a session says means nothing to anybody. */
export function notified(
  { session, headers }: RequestContext,
  message: NotificationMessage,
  parts: ClientMessageParts,
): Outcome {
  if (!session) return ACCEPTED;
  const { lives, calls, sessionLinks, relay } = parts;
  switch (message.method) {
    case 'notifications/initialized':
      break;
    case 'notifications/cancelled': {
      const requestId = paramText(message.text, 'requestId');
      if (requestId !== undefined) calls.find((call) => call.isFor(session.id, requestId))?.cancel(message);
      break;
    }
    case 'notifications/progress': {
      const token = paramText(message.text, 'progressToken');
      if (token !== undefined) lives.find(session.id)?.question(token)?.progressed(message.text);
      break;
    }
    default: {
      if (SERVERS_ONLY.has(message.method) || !message.method.startsWith(NOTIFICATIONS)) break;
      const own = relay.upstreamHeaders(headers);
      if (own) sessionLinks.notify(session, own, message.text);
    }
  }
  return ACCEPTED;
}
