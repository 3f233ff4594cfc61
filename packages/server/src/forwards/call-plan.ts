import type { Edit } from '../json/splice.ts';
import type { RequestMessage } from '../mcp/message.ts';
import type { Era } from '../mcp/protocol.ts';
import type { LiveSessions } from '../sessions/live-sessions.ts';
import type { ClientSession, ClientSessions } from '../sessions/sessions.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { CallsUnderWay } from './calls-under-way.ts';
import type { Crossing } from './crossing.ts';
import type { LinkedResources } from './linked-resources.ts';
import type { UpstreamLink } from './links.ts';
import type { RelayedCall } from './relayed-call.ts';
import type { Upstream } from './upstream.ts';

/** What all calls share. */
export interface CallParts {
  readonly calls: CallsUnderWay<RelayedCall>;
  readonly lives: LiveSessions;
  readonly sessions: ClientSessions;
  readonly linkedResources: LinkedResources;
  /** Bound on an answer that must be held whole, in bytes. */
  readonly maxResponseBytes: number;
  readonly log: TargetLogger;
}

/** Everything about one call that is known before it is sent. */
export interface CallPlan {
  readonly upstream: Upstream;
  readonly message: RequestMessage;
  /** Replacements in the message's text besides the id: the upstream's own name for what is called. */
  readonly edits: readonly Edit[];
  /** Set where client and upstream are of different eras. */
  readonly crossing: Crossing | undefined;
  /** Where the client's progress token stands in the text; undefined when it wants no progress. */
  readonly progressToken: Edit | undefined;
  /** Headers besides the link's own. */
  readonly headers: readonly string[];
  /** The link to send on, asked for again after the upstream has forgotten its session. */
  link(): UpstreamLink | Promise<UpstreamLink>;
  /** What failures are called: `forwarded tool call failed`. */
  readonly failure: string;
  /** Whether the client said that it reads event streams, and whether it said so of JSON. */
  readonly streams: boolean;
  readonly json: boolean;
  /** The client's; its leaving ends a modern call and not a legacy one (mcp 1). */
  readonly era: Era;
  /** The client's session, when it has one. */
  readonly session: ClientSession | undefined;
  /** The forward that answers; undefined for an upstream that is none. */
  readonly forward: string | undefined;
  readonly namespace: string | undefined;
}
