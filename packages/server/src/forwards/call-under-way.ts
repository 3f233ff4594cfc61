import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import type { NotificationMessage } from '@sluice/protocol/mcp/message';
import type { CallsUnderWay, Watched } from './calls-under-way.ts';
import type { UpstreamLink } from './links.ts';
import type { Upstream } from './upstream.ts';

/** Why nobody waits for a call any more, as its events say it, and upstreams are told. */
export const CLIENT_LEFT = 'the client has left';
/** As {@link CLIENT_LEFT}. */
export const CLIENT_CANCELLED = 'the client cancelled the call';

/** A call that messages of the client's or the upstream's may mean, as it is found among all that are under way. */
export interface CallUnderWay extends Watched {
  /** True for the call that answers this request of this session. */
  isFor(session: string, idText: string): boolean;
  /** The client no longer wants the answer, as it says in this `notifications/cancelled`: nor does it get one. */
  cancel(message: NotificationMessage): void;
  /**
   * True for the call of this session (undefined: of none) that gave out this progress token to this upstream. This and
   * what follows is there while a request is under way upstream.
   */
  reportsTo?(upstream: Upstream, session: string | undefined, token: unknown): boolean;
  /** A progress notification of the upstream's that did not come on the call's own stream. */
  progressed?(text: string, value: JsonObject): void;
  /** True for a call that goes out over this link. */
  uses?(link: UpstreamLink): boolean;
  /**
   * A request or notification for this call that came on its session's own stream. False: send no more until the link's
   * channel is told to `resume`.
   */
  overheard?(text: string, value: JsonObject): boolean;
}

/** Hands a progress notification to the call that it is for, of this session (undefined: of none) at this upstream. */
export function passProgress(
  calls: Pick<CallsUnderWay<CallUnderWay>, 'find'>,
  upstream: Upstream,
  session: string | undefined,
  text: string,
  value: JsonObject,
): void {
  const token = isJsonObject(value.params) ? value.params.progressToken : undefined;
  calls.find((call) => call.reportsTo?.(upstream, session, token) ?? false)?.progressed?.(text, value);
}
