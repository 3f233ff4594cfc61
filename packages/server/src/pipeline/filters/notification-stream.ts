import {
  HEADER_LAST_EVENT_ID,
  INTERNAL_ERROR,
  INVALID_REQUEST,
  LIST_CHANGED_METHODS,
  POLLING_VERSION,
} from '@sluice/protocol/mcp/constants';
import type { ClientAnswer } from '../../answer/client-answer.ts';
import type { LongStreams } from '../../answer/long-streams.ts';
import { type Outcome, rpcError } from '../../answer/outcome.ts';
import type { CallRelay } from '../../forwards/relay.ts';
import type { SessionLinks } from '../../forwards/session-links.ts';
import type { Notices } from '../../notices/notices.ts';
import { SessionNotices } from '../../notices/session-notices.ts';
import type { EventStore, Resumption } from '../../sessions/event-store.ts';
import type { LiveSessions } from '../../sessions/live-sessions.ts';
import type { ClientSession } from '../../sessions/sessions.ts';
import type { RequestContext } from '../context.ts';

/** What notification streams are made of. */
export interface NotificationStreamParts {
  readonly lives: LiveSessions;
  readonly events: EventStore;
  readonly notices: Notices;
  readonly longStreams: LongStreams;
  readonly sessionLinks: SessionLinks;
  readonly relay: Pick<CallRelay, 'upstreamHeaders'>;
}

/**
 * GET of a legacy session: its notification stream or, with `Last-Event-ID`, the rest of a stream that broke off
 * (2025-11-25, "Listening for Messages from the Server"; mcp 3). What this process does not have any more is said so.
 */
export function notificationStream(
  context: RequestContext,
  session: ClientSession,
  parts: NotificationStreamParts,
): Outcome {
  const { accept, [HEADER_LAST_EVENT_ID]: lastEventId } = context.headers;
  if (accept !== undefined && !/text\/event-stream|\*\/\*/.test(accept)) {
    return rpcError(INVALID_REQUEST, 'header Accept must name text/event-stream', 406);
  }
  const headers = parts.relay.upstreamHeaders(context.headers);
  // No JSON-RPC answer can be given to a GET.
  if (!headers) return rpcError(INVALID_REQUEST, 'forwarding loop', 508);
  if (typeof lastEventId !== 'string') return open(headers, session, parts, false);
  const resumption = parts.events.find(session.id, lastEventId);
  switch (resumption.kind) {
    case 'foreign':
      return rpcError(INVALID_REQUEST, 'header Last-Event-ID names no event of this session', 400);
    case 'stream':
      return { kind: 'stream', start: (client) => resume(client, resumption) };
    case 'lost':
      return resumption.idText === undefined
        ? open(headers, session, parts, true)
        : unknownOutcome(resumption.idText, resumption.restarted);
  }
}

/** A new notification stream. `lost`: the client had one before, and what was to come on it is lost. */
function open(
  headers: readonly string[],
  session: ClientSession,
  { lives, notices, longStreams, sessionLinks }: NotificationStreamParts,
  lost: boolean,
): Outcome {
  const start = (client: ClientAnswer): void => {
    const live = lives.of(session.id);
    // Who does not take up a stream again never gets what was sent to it meanwhile.
    const gap = lost || live.unread;
    const first = !live.listening;
    let remove = (): void => undefined;
    const stream = live.openStream(() => remove());
    remove = longStreams.add({ keepAlive: () => stream.keepAlive(), end: () => live.closeStream(stream) });
    if (first) new SessionNotices(live, notices, session.namespace);
    client.continueStream(stream);
    // Sends the head on its way, whichever it is.
    if (session.protocolVersion >= POLLING_VERSION) stream.prime();
    else stream.keepAlive();
    if (gap) for (const method of LIST_CHANGED_METHODS) stream.send(`{"jsonrpc":"2.0","method":"${method}"}`);
    sessionLinks.hold(session, headers, gap);
  };
  return { kind: 'stream', start };
}

/** Goes on with a stream that is still here. */
function resume(client: ClientAnswer, { stream, after }: Extract<Resumption, { kind: 'stream' }>): void {
  client.continueStream(stream, after);
  // Sends the head on its way where there is nothing to send again.
  stream.keepAlive();
}

function unknownOutcome(idText: string, restarted: boolean): Outcome {
  const message = restarted ? 'outcome unknown after restart' : 'the answer is not kept any more';
  const error = `{"code":${INTERNAL_ERROR},"message":"${message}"}`;
  const start = (client: ClientAnswer): void => {
    client.beginStream();
    client.lastEvent(`{"jsonrpc":"2.0","id":${idText},"error":${error}}`);
  };
  return { kind: 'stream', start };
}
